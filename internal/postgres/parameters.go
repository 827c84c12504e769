package postgres

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// parameter is a row of pg_settings: what values a parameter takes.
type parameter struct {
	Name, Kind, Unit, Least, Most string
	Words                         []string
	Context                       string
}

const parametersSQL = `
SELECT lower(name), vartype, coalesce(unit, ''), coalesce(min_val, ''), coalesce(max_val, ''), coalesce(enumvals, '{}'), context
FROM pg_settings WHERE lower(name) = ANY($1)` // the API has lower-case names only

// CheckParameters says, for each parameter that the server wouldn't take, why; it changes nothing. A wrong value in its
// configuration would keep the server from starting. Parameters of extensions, whose names have a dot, are known only
// while the extension is loaded, so that unknown ones of them pass.
func (s *Server) CheckParameters(ctx context.Context, parameters map[string]string) (map[string]string, error) {
	names := make([]string, 0, len(parameters))
	for name := range parameters {
		names = append(names, name)
	}
	var known []parameter
	err := s.run(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		return s.intercept(ctx, "SELECT pg_settings", func(ctx context.Context) error {
			rows, err := conn.Query(ctx, parametersSQL, names)
			if err != nil {
				return err
			}
			known, err = pgx.CollectRows(rows, pgx.RowToStructByPos[parameter])
			return err
		})
	})
	faults := map[string]string{}
	for _, name := range loadedAtLogin {
		if fault, failed := s.loadFault(ctx, name, parameters[name]); fault != "" {
			faults[name] = fault
		} else if err == nil {
			err = failed
		}
	}
	if err != nil {
		return nil, errorf(KindFailed, err, "The server's parameters could not be read.")
	}
	for name, value := range parameters {
		i := slices.IndexFunc(known, func(p parameter) bool { return p.Name == name })
		switch {
		case i >= 0:
			if fault := known[i].fault(value); fault != "" {
				faults[name] = fault
			}
		case !strings.Contains(name, "."):
			faults[name] = "is no parameter of this PostgreSQL"
		}
	}
	return faults, nil
}

// loadedAtLogin name libraries that each new connection loads: with a wrong one nobody can log in any more.
var loadedAtLogin = []string{"session_preload_libraries", "local_preload_libraries"}

// loadFault says which library of the parameter's value can't be loaded; empty where all can. What is loaded stays in one
// of the connections, as it would be in each of them.
func (s *Server) loadFault(ctx context.Context, name, value string) (fault string, err error) {
	for library := range strings.SplitSeq(value, ",") {
		library = strings.Trim(library, ` "`)
		if library == "" {
			continue
		}
		file := library
		if name == "local_preload_libraries" && !strings.Contains(library, "/") {
			file = "$libdir/plugins/" + library
		}
		err := s.run(ctx, func(ctx context.Context, conn *pgx.Conn) error {
			return s.intercept(ctx, "LOAD", func(ctx context.Context) error {
				_, err := conn.Exec(ctx, "LOAD "+literal(file))
				return err
			})
		})
		switch code := sqlState(err); {
		case err == nil, code == codeInsufficientPrivilege:
		case code != "" && !slices.Contains(notOfLibraries, code[:2]):
			return fmt.Sprintf("names the library %q, which the server can't load", library), nil
		default:
			return "", err
		}
	}
	return "", nil
}

// notOfLibraries are the classes of errors that LOAD may meet and that say nothing of the library: the connection's, of
// resources, of an operator.
var notOfLibraries = []string{"08", "53", "57"}

// Duration is a time as PostgreSQL reads it in its configuration, rounded to the unit of the parameter, which is also that
// of a number alone.
func Duration(value string, of time.Duration) (time.Duration, error) {
	number := strings.TrimRight(strings.TrimSpace(value), "usminhd ")
	unit := strings.TrimSpace(strings.TrimSpace(value)[len(number):])
	factor, known := units[1][unit]
	n, err := strconv.ParseFloat(number, 64)
	if whole, hex := strconv.ParseInt(number, 0, 64); hex == nil {
		n, err = float64(whole), nil
	}
	switch {
	case err != nil:
		return 0, err
	case known:
		n *= factor * float64(time.Microsecond) / float64(of)
	case unit != "":
		return 0, fmt.Errorf("the unit %q of a time isn't known", unit)
	}
	return time.Duration(math.RoundToEven(n)) * of, nil
}

// fault says why the parameter doesn't take the value; empty where it does. The rules are those of PostgreSQL's
// documentation, "Parameter Names and Values".
func (p parameter) fault(value string) string {
	switch {
	case p.Context == "internal":
		return "can't be changed"
	case p.Kind == "bool" && !isBool(value):
		return "must be on or off"
	case p.Kind == "enum" && !slices.ContainsFunc(p.Words, func(w string) bool { return strings.EqualFold(w, value) }) && !p.hidden(value):
		return "must be one of " + strings.Join(p.Words, ", ")
	case p.Kind == "integer" || p.Kind == "real":
		return p.numberFault(value)
	}
	return ""
}

// hidden reports a boolean word, which most enumerations with on and off take too, without naming it.
func (p parameter) hidden(value string) bool {
	return isBool(value) && slices.Contains(p.Words, "on") && slices.Contains(p.Words, "off")
}

func isBool(value string) bool {
	v := strings.ToLower(value)
	switch v {
	case "1", "0", "on", "of", "off":
		return true
	}
	return v != "" && (strings.HasPrefix("true", v) || strings.HasPrefix("false", v) || strings.HasPrefix("yes", v) || strings.HasPrefix("no", v))
}

// units has the size of each unit in the smallest of its family.
var units = []map[string]float64{
	{"B": 1, "kB": 1 << 10, "MB": 1 << 20, "GB": 1 << 30, "TB": 1 << 40},
	{"us": 1, "ms": 1e3, "s": 1e6, "min": 60e6, "h": 3600e6, "d": 24 * 3600e6},
}

func (p parameter) numberFault(value string) string {
	text := strings.TrimSpace(value)
	end := strings.LastIndexFunc(text, func(r rune) bool { return '0' <= r && r <= '9' || r == '.' }) + 1
	number, err := strconv.ParseFloat(text[:end], 64)
	unit := strings.TrimSpace(text[end:])
	if err != nil {
		if whole, hex := strconv.ParseInt(text, 0, 64); hex == nil {
			number, unit, err = float64(whole), "", nil
		}
	}
	if err != nil {
		return "must be a number" + p.example()
	}
	if unit != "" {
		factor, ok := p.factor(unit)
		if !ok {
			return fmt.Sprintf("has the unit %q, which it doesn't take%s", unit, p.example())
		}
		number *= factor
	}
	least, err1 := strconv.ParseFloat(p.Least, 64)
	most, err2 := strconv.ParseFloat(p.Most, 64)
	if err1 == nil && err2 == nil && (number < least || number > most) {
		return fmt.Sprintf("must be from %s to %s%s", p.Least, p.Most, map[bool]string{true: " (in " + p.Unit + ")"}[p.Unit != ""])
	}
	return ""
}

// factor turns a number of the unit into one of the parameter's own unit, as 8kB.
func (p parameter) factor(unit string) (float64, bool) {
	base := strings.TrimLeft(p.Unit, "0123456789")
	count, err := strconv.ParseFloat(strings.TrimSuffix(p.Unit, base), 64)
	if err != nil {
		count = 1
	}
	for _, family := range units {
		own, ok := family[base]
		other, known := family[unit]
		if ok && known {
			return other / (own * count), true
		}
	}
	return 0, false
}

func (p parameter) example() string {
	switch base := strings.TrimLeft(p.Unit, "0123456789"); {
	case base == "":
		return ""
	case units[0][base] != 0:
		return ", with a unit as 16MB"
	}
	return ", with a unit as 30s"
}
