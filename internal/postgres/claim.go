package postgres

import (
	"errors"
	"fmt"
	"strings"
)

// Claim says which resource owns a role. It is the role's comment, one line:
//
//	databases/v1 cluster=C group=G namespace=NS name=N uid=U
//
// A line that ends after the name fits any resource of that name: an administrator writes it to hand a role over.
type Claim struct {
	// Cluster identifies the Kubernetes cluster: the uid of its Namespace kube-system.
	Cluster string
	// Group is the API group of the resource's kind.
	Group string
	// Namespace and Name are the resource's.
	Namespace, Name string
	// UID is the resource's; empty in a line that hands a role over.
	UID string
}

const (
	claimMark    = "databases/"
	claimVersion = claimMark + "v1"
)

var claimKeys = [...]string{"cluster", "group", "namespace", "name", "uid"}

// errNoClaim: the comment is not a claim of any version.
var errNoClaim = errors.New("not a claim")

// String is the line as it stands in the role's comment.
func (c Claim) String() string {
	line := fmt.Sprintf("%s cluster=%s group=%s namespace=%s name=%s", claimVersion, c.Cluster, c.Group, c.Namespace, c.Name)
	if c.UID != "" {
		line += " uid=" + c.UID
	}
	return line
}

// ParseClaim reads a role's comment. A line is a claim only if String gives the same line back.
func ParseClaim(comment string) (Claim, error) {
	if !strings.HasPrefix(comment, claimMark) {
		return Claim{}, errNoClaim
	}
	fields := strings.Split(comment, " ")
	if fields[0] != claimVersion {
		return Claim{}, fmt.Errorf("a claim of unknown version %q", fields[0])
	}
	fields = fields[1:]
	if len(fields) != len(claimKeys) && len(fields) != len(claimKeys)-1 {
		return Claim{}, fmt.Errorf("a claim with %d fields", len(fields))
	}
	var values [len(claimKeys)]string
	for i, field := range fields {
		key, value, _ := strings.Cut(field, "=")
		if key != claimKeys[i] || !validClaimValue(value) {
			return Claim{}, fmt.Errorf("a claim whose field %d isn't %s=VALUE", i+1, claimKeys[i])
		}
		values[i] = value
	}
	return Claim{Cluster: values[0], Group: values[1], Namespace: values[2], Name: values[3], UID: values[4]}, nil
}

// Validate reports a field that can't stand in a claim.
func (c Claim) Validate() error {
	values := [...]string{c.Cluster, c.Group, c.Namespace, c.Name, c.UID}
	for i, value := range values {
		if !validClaimValue(value) && (claimKeys[i] != "uid" || value != "") {
			return fmt.Errorf("claim: %s %q must be letters, digits, '-' and '.', and not empty", claimKeys[i], value)
		}
	}
	return nil
}

// fits reports whether a role that carries c belongs to the resource of want.
func (c Claim) fits(want Claim) bool {
	return c == want || (c.UID == "" && c.sameResource(want))
}

func (c Claim) sameResource(d Claim) bool {
	c.UID, d.UID = "", ""
	return c == d
}

// validClaimValue accepts what Kubernetes' names, groups and uids are made of, so that nothing needs quoting.
func validClaimValue(s string) bool {
	if s == "" || len(s) > 253 {
		return false
	}
	for _, r := range s {
		switch {
		case 'a' <= r && r <= 'z', 'A' <= r && r <= 'Z', '0' <= r && r <= '9', r == '-', r == '.':
		default:
			return false
		}
	}
	return true
}
