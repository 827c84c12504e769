//go:build e2e

package e2e

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/example/databases/internal/testenv"
)

const (
	// inPods is who the program is where deploy has put it, and outside who it is where a case runs it beside the cluster.
	inPods  = "system:serviceaccount:databases:databases"
	outside = "system:serviceaccount:" + outsideNamespace + ":databases"

	outsideNamespace = "e2e-program"

	// tokenLife is longer than any run: nobody renews the token of a program outside the cluster.
	tokenLife = 7 * 24 * time.Hour
)

// neverSeen are rights that the program needs and that a run needn't show, with the reason.
var neverSeen = map[string]string{
	"update configmaps": toGrant,
	"update pods":       toGrant,
	"update databases.postgres.example.com/finalizers": enforced,
	"update databases.database.example.com/finalizers": enforced,
	"patch events.events.k8s.io":                       sometimes,
	"list databases.postgres.example.com":              streamed,
	"list databases.database.example.com":              streamed,
	"list secrets":                                     streamed,
	"list configmaps":                                  streamed,
	"list services":                                    streamed,
	"list serviceaccounts":                             streamed,
	"list statefulsets.apps":                           streamed,
	"list roles.rbac.authorization.k8s.io":             streamed,
	"list rolebindings.rbac.authorization.k8s.io":      streamed,
	"list networkpolicies.networking.k8s.io":           streamed,
	"list poddisruptionbudgets.policy":                 streamed,
}

const (
	sometimes = "an event that comes again soon is counted, and whether one does is a matter of time"
	streamed  = "needed where the API server can't stream lists, and where a stream fails"
	toGrant   = "held to be granted on: Patroni's"
	enforced  = "looked at by the API server itself, where OwnerReferencesPermissionEnforcement is on, as it is here"
)

// granted are the rules that the manifests give the program.
func granted() (cluster, own []rbacv1.PolicyRule, err error) {
	command := exec.Command(kubectl, "kustomize", "../../deploy/kustomize")
	manifests, err := command.Output()
	if err != nil {
		return nil, nil, fmt.Errorf("kubectl kustomize: %w", err)
	}
	reader := yaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(manifests)))
	for {
		document, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return cluster, own, nil
		}
		var role rbacv1.ClusterRole // a Role has the same rules
		if err == nil {
			err = yaml.Unmarshal(document, &role)
		}
		if err != nil {
			return nil, nil, err
		}
		switch role.Kind {
		case "ClusterRole":
			cluster = append(cluster, role.Rules...)
		case "Role":
			own = append(own, role.Rules...)
		}
	}
}

// programKubeconfig is a kubeconfig with the rights that the manifests give the program, and with port-forwards, which it needs
// outside the cluster only.
func programKubeconfig(t *testing.T) string {
	t.Helper()
	programOnce.Do(func() { programFile, programError = newProgramKubeconfig(testenv.Get(t), filepath.Dir(auditLog)) })
	if programError != nil {
		t.Fatal(programError)
	}
	return programFile
}

var (
	programOnce  sync.Once
	programFile  string
	programError error
)

func newProgramKubeconfig(env *testenv.Environment, folder string) (string, error) {
	rules, _, err := granted()
	if err != nil {
		return "", err
	}
	rules = append(rules, rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"pods/portforward"}, Verbs: []string{"create"}})
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: outsideNamespace, Name: "databases"}}
	for _, o := range []client.Object{
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: outsideNamespace}},
		account,
		&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: outsideNamespace}, Rules: rules},
		&rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: outsideNamespace},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: outsideNamespace},
			Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: outsideNamespace, Name: account.Name}},
		},
	} {
		if err := env.Client().Create(context.Background(), o); err != nil && !apierrors.IsAlreadyExists(err) {
			return "", err
		}
	}
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: new(int64(tokenLife.Seconds()))}}
	if err := env.Client().SubResource("token").Create(context.Background(), account, request); err != nil {
		return "", err
	}
	if life := time.Until(request.Status.ExpirationTimestamp.Time); life < tokenLife-time.Hour {
		return "", fmt.Errorf("the API server gives the program a token for %s only, want %s", life.Round(time.Second), tokenLife)
	}
	config, err := clientcmd.LoadFromFile(env.Kubeconfig)
	if err != nil {
		return "", err
	}
	for name := range config.AuthInfos {
		config.AuthInfos[name] = &clientcmdapi.AuthInfo{Token: request.Status.Token}
	}
	file := filepath.Join(folder, "program.kubeconfig")
	return file, clientcmd.WriteToFile(*config, file)
}

// spans are parts of the audit log.
type spans struct {
	mu  sync.Mutex
	all [][2]int64
}

// changing are the times in which a case takes rights from replicas that still run.
var changing spans

func (s *spans) has(at int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.ContainsFunc(s.all, func(span [2]int64) bool { return span[0] <= at && at < span[1] })
}

// changingRights says that from now until done is called replicas may be refused what they ask for.
func (w *world) changingRights() (done func()) {
	return w.changingRightsSince(w.mark())
}

func (w *world) changingRightsSince(begin int64) (done func()) {
	return func() {
		end := w.mark()
		changing.mu.Lock()
		defer changing.mu.Unlock()
		changing.all = append(changing.all, [2]int64{begin, end})
	}
}

// checkRights compares what the program is granted with what it did, by the API server's audit log: nothing that it asked for
// was refused, and, where that is the whole of all cases, nothing is granted that it never used.
func checkRights(audit string, whole bool) error {
	cluster, own, err := granted()
	if err != nil {
		return err
	}
	content, err := os.ReadFile(audit)
	if err != nil {
		return err
	}
	used := map[string]bool{}
	var faults []string
	// names are of the rights that manifests could tie to one object each: which names were used.
	names := map[string]map[string]bool{"get namespaces": {}, "get leases.coordination.k8s.io": {}, "update leases.coordination.k8s.io": {}}
	var end int64
	for line := range bytes.Lines(content) {
		var r request
		begin := end
		end += int64(len(line))
		if json.Unmarshal(line, &r) != nil || r.Stage != "ResponseComplete" && r.Stage != "ResponseStarted" || r.User.Username != inPods && r.User.Username != outside {
			continue
		}
		if r.ResponseStatus.Code == http.StatusForbidden && changing.has(begin) {
			continue
		}
		if r.ResponseStatus.Code == http.StatusForbidden && !strings.Contains(r.ResponseStatus.Message, "being terminated") {
			faults = append(faults, fmt.Sprintf("refused: %s %s (%s)", r.Verb, r.RequestURI, r.UserAgent))
			continue
		}
		verbs := []string{r.Verb}
		if r.Verb == "patch" && r.ResponseStatus.Code == http.StatusCreated {
			verbs = append(verbs, "create") // an apply of what isn't there needs both
		}
		for _, verb := range verbs {
			right := verb + " " + r.ObjectRef.resource()
			used[right] = true
			if named := names[right]; named != nil {
				named[r.ObjectRef.Name] = true
			}
		}
	}
	if !whole {
		return joined(faults)
	}
	rights := rightsOf(append(cluster, own...))
	for _, right := range rights {
		switch reason := neverSeen[right]; {
		case !used[right] && reason == "":
			faults = append(faults, "granted and never used: "+right)
		case used[right] && reason != "" && reason != streamed && reason != sometimes:
			faults = append(faults, "used, though listed as "+reason+": "+right)
		}
	}
	for right, used := range names {
		if tied := tiedTo(append(cluster, own...), right); len(used) > 0 && len(tied) != len(used) {
			faults = append(faults, fmt.Sprintf("%s: granted for the names %q (none: for all), used for %d", right, tied, len(used)))
		}
	}
	for right := range neverSeen {
		if !slices.Contains(rights, right) {
			faults = append(faults, "listed as never seen, and not granted: "+right)
		}
	}
	if len(faults) > 0 {
		return joined(faults)
	}
	fmt.Printf("rights: %d granted, all of them used but for those (%d at most) that are listed with a reason; none was missing\n", len(rights), len(neverSeen))
	return nil
}

// joined is an error with each fault once; nil for none.
func joined(faults []string) error {
	if len(faults) == 0 {
		return nil
	}
	slices.Sort(faults)
	return errors.New(strings.Join(slices.Compact(faults), "\n"))
}

// tiedTo are the names for which a right is granted; empty where it is granted for all.
func tiedTo(rules []rbacv1.PolicyRule, right string) (names []string) {
	for _, rule := range rules {
		if slices.Contains(rightsOf([]rbacv1.PolicyRule{rule}), right) {
			if len(rule.ResourceNames) == 0 {
				return nil
			}
			names = append(names, rule.ResourceNames...)
		}
	}
	return names
}

// rightsOf lists each verb with each resource once.
func rightsOf(rules []rbacv1.PolicyRule) (all []string) {
	for _, rule := range rules {
		for _, group := range rule.APIGroups {
			for _, resource := range rule.Resources {
				main, sub, _ := strings.Cut(resource, "/")
				for _, verb := range rule.Verbs {
					all = append(all, verb+" "+reference{APIGroup: group, Resource: main, Subresource: sub}.resource())
				}
			}
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// reference is an audit log's objectRef.
type reference struct{ APIGroup, Resource, Subresource, Name string }

func (r reference) resource() string {
	name := r.Resource
	if r.APIGroup != "" {
		name += "." + r.APIGroup
	}
	if r.Subresource != "" {
		name += "/" + r.Subresource
	}
	return name
}

// TestRightsAreCompared shows that the comparison finds what is refused and what is superfluous.
func TestRightsAreCompared(t *testing.T) {
	begin(t)
	file := filepath.Join(t.TempDir(), "audit.log")
	line := `{"stage":"ResponseComplete","verb":"delete","requestURI":"/api/v1/namespaces/x/secrets/y","user":{"username":"` + inPods + `"},` +
		`"objectRef":{"resource":"secrets"},"responseStatus":{"code":403}}` + "\n"
	if err := os.WriteFile(file, []byte(line), 0o600); err != nil {
		t.Fatal(err)
	}
	err := checkRights(file, true)
	for _, want := range []string{"refused: delete /api/v1/namespaces/x/secrets/y", "granted and never used: patch secrets", "granted and never used: update leases.coordination.k8s.io"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v doesn't have %q", err, want)
		}
	}
	if err != nil && strings.Contains(err.Error(), "not granted") {
		t.Error(err)
	}
	// A part of the cases shows what is refused, and nothing of what the others use.
	if err := checkRights(file, false); err == nil || !strings.HasPrefix(err.Error(), "refused: ") || strings.Contains(err.Error(), "granted") {
		t.Errorf("of a part: %v", err)
	}
}
