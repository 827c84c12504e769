package fault

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

const (
	maxText  = 1024
	maxCount = 1_000_000
	maxQuote = 40 // of a mistake that an error shows
)

// outcomes are the words for what happens, and the actions they stand for.
var outcomes = []struct {
	word   string
	action Action
}{{"error", Before}, {"conflict", Conflict}, {"panic", Panic}, {"delay", None}, {"off", None}}

const outcomeForms = "error, conflict, panic, delay(2s) or off"

// Parse reads a scenario; docs/failure-scenarios.md has the grammar. Its errors are one line that says where the
// mistake is, in characters from 1, and what may stand there.
func Parse(text string) (*Scenario, error) {
	if len(text) > maxText {
		return nil, fmt.Errorf("it has %d bytes; at most %d may be", len(text), maxText)
	}
	p := &parser{text: text}
	s := &Scenario{text: text, terms: map[string][]term{}, calls: map[string]int{}}
	for {
		p.skip(" \t\r\n;") // also an empty clause, as after a last semicolon
		if p.at == len(text) {
			break
		}
		if err := p.clause(s.terms); err != nil {
			return nil, err
		}
		if p.skip(" \t\r"); p.at < len(text) && !strings.ContainsRune(";\n", rune(text[p.at])) {
			return nil, p.fail(p.at, "there may be ->, a semicolon or the end")
		}
	}
	if len(s.terms) == 0 {
		return nil, p.fail(0, "there must be an operation, as in provision=3*error")
	}
	return s, nil
}

// parser reads a text from left to right.
type parser struct {
	text string
	at   int
}

// clause reads OPERATION=TERM->TERM...
func (p *parser) clause(into map[string][]term) error {
	begin := p.at
	operation := p.word()
	if !slices.Contains(operations, operation) {
		return p.fail(begin, "there must be an operation: "+orList(operations))
	}
	if into[operation] != nil {
		return p.fail(begin, "there may be another operation; this one is named twice: join its outcomes with ->")
	}
	p.skip(" \t")
	if !p.take("=") {
		return p.fail(p.at, "there must be = after the operation")
	}
	for {
		p.skip(" \t")
		begin := p.at
		if terms := into[operation]; len(terms) > 0 && terms[len(terms)-1].count == 0 {
			return p.fail(begin, "there can be nothing more for "+operation+": the outcome before has no number of calls, so it never ends")
		}
		t, err := p.term()
		if err != nil {
			return err
		}
		into[operation] = append(into[operation], t)
		p.skip(" \t")
		if !p.take("->") {
			return nil
		}
	}
}

// term reads [COUNT*]OUTCOME[(DURATION)].
func (p *parser) term() (term, error) {
	var t term
	begin := p.at
	if n, ok := p.number(); ok {
		t.count = n
		if p.take("/") {
			every, ok := p.number()
			if t.count, t.every = 0, every; n != 1 || !ok || every < 2 {
				return t, p.fail(begin, "there may be 1/N* with N from 2: each N-th call")
			}
		}
		if t.every == 0 && t.count == 0 || !p.take("*") {
			return t, p.fail(begin, fmt.Sprintf("there may be N* or 1/N* with N up to %d, as in 3*error", maxCount))
		}
	}
	begin = p.at
	word := p.word()
	action, ok := Action(""), false
	for _, o := range outcomes {
		if o.word == word {
			action, ok = o.action, true
		}
	}
	if !ok {
		return t, p.fail(begin, "there must be "+outcomeForms)
	}
	t.fault.Action = action
	if !p.take("(") {
		if word == "delay" {
			return t, p.fail(p.at, "there must be a duration, as in delay(2s)")
		}
		return t, nil
	}
	begin = p.at
	if word == "off" {
		return t, p.fail(begin-1, "off takes no duration")
	}
	end := strings.IndexByte(p.text[begin:], ')')
	if end < 0 {
		return t, p.fail(begin, "there must be a duration and ), as in "+word+"(2s)")
	}
	delay, err := time.ParseDuration(strings.TrimSpace(p.text[begin : begin+end]))
	if err != nil || delay <= 0 {
		return t, p.fail(begin, "there must be a duration above 0, as 500ms, 2s or 1m")
	}
	p.at = begin + end + 1
	t.fault.Delay = delay
	return t, nil
}

func (p *parser) skip(chars string) {
	for p.at < len(p.text) && strings.IndexByte(chars, p.text[p.at]) >= 0 {
		p.at++
	}
}

func (p *parser) take(token string) bool {
	if !strings.HasPrefix(p.text[p.at:], token) {
		return false
	}
	p.at += len(token)
	return true
}

// word reads letters and single dashes within them; "->" isn't part of one.
func (p *parser) word() string {
	begin := p.at
	for p.at < len(p.text) && (isLetter(p.text[p.at]) || p.text[p.at] == '-' && !strings.HasPrefix(p.text[p.at:], "->")) {
		p.at++
	}
	return p.text[begin:p.at]
}

// number reads digits; it is 0 where they are more than the limit.
func (p *parser) number() (n int, ok bool) {
	begin := p.at
	for p.at < len(p.text) && p.text[p.at] >= '0' && p.text[p.at] <= '9' {
		p.at++
	}
	if p.at == begin {
		return 0, false
	}
	n, err := strconv.Atoi(p.text[begin:p.at])
	if err != nil || n > maxCount {
		return 0, true
	}
	return n, true
}

// fail says what may stand at the place, and what stands there.
func (p *parser) fail(at int, allowed string) error {
	found := p.text[at:]
	if end := strings.IndexAny(found, ";\n"); end > 0 {
		found = found[:end]
	}
	if len(found) > maxQuote {
		found = found[:maxQuote]
	}
	return fmt.Errorf("at character %d, %q: %s", len([]rune(p.text[:at]))+1, found, allowed)
}

func isLetter(c byte) bool { return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' }

func orList(words []string) string {
	return strings.Join(words[:len(words)-1], ", ") + " or " + words[len(words)-1]
}
