package main

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"time"
)

// commandTimeout ends a command that hangs. What waits in the story gives up earlier, and says for what it waited.
const commandTimeout = 2 * time.Minute

// scene is a chapter of the story.
type scene struct {
	title    string
	needsPod bool // it is left out where the machine can't have a node
	parts    []part
	lesson   string // what the summary says of it
}

// lessons are what the summary says of the scenes, noNode being why those that need pods were left out.
func lessons(scenes []scene, noNode string) []string {
	var all []string
	for _, scene := range scenes {
		lesson := scene.lesson
		if scene.needsPod && noNode != "" {
			lesson = fmt.Sprintf("%q was left out: %s.", scene.title, noNode)
		}
		all = append(all, lesson)
	}
	return all
}

// part is one thing that happens in a scene.
type part func(context.Context, *stage) error

// tell plays the scenes, up to the first part that fails.
func tell(ctx context.Context, s *stage, scenes []scene) error {
	for i, scene := range scenes {
		s.screen.title(i+1, scene.title)
		if scene.needsPod && s.noNode != "" {
			s.screen.say("Left out, because it needs pods: " + s.noNode + ".")
			continue
		}
		for _, part := range scene.parts {
			err := part(ctx, s)
			if cause := context.Cause(ctx); cause != nil {
				err = cause // whatever the part says, this is why
			}
			if err != nil {
				return fmt.Errorf("step %d (%s) failed: %w", i+1, scene.title, err)
			}
		}
	}
	return nil
}

// say is a paragraph.
func say(text string) part {
	return func(_ context.Context, s *stage) error {
		s.screen.say(strings.Join(strings.Fields(text), " "))
		return nil
	}
}

// file writes a file and shows it.
func file(name, content string) part {
	return func(ctx context.Context, s *stage) error {
		if err := s.write(name, content); err != nil {
			return err
		}
		return do("cat "+name, prints("^kind: "))(ctx, s)
	}
}

// collectorPeriod is how often Kubernetes' garbage collector looks for new kinds of resource, and a little more.
const collectorPeriod = 32 * time.Second

// awaitCollector waits until the garbage collector knows the kind Database. It would remove the Secrets of Databases
// that are deleted earlier too, but, after its retries have become rare, up to a minute later.
func awaitCollector(ctx context.Context, s *stage) error {
	left := time.Until(s.kubernetes.Add(collectorPeriod))
	if left < time.Second {
		return nil
	}
	s.screen.say(fmt.Sprintf("(A moment: the garbage collector, which removes the Secrets, looks for new kinds of resource "+
		"every 30 seconds only, and this cluster is so new that it first does so in %.0f seconds.)", left.Seconds()))
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(left):
		return nil
	}
}

// outcome is how a command ended.
type outcome struct {
	status int
	output string
}

// check says what is wrong with an outcome; nothing if it is as expected.
type check struct {
	status *int
	wrong  func(output string) string
}

// exits expects an exit status; without it, success is expected.
func exits(status int) check { return check{status: &status} }

// prints expects output that matches the regular expression, in which ^ and $ are a line's.
func prints(pattern string) check {
	wanted := regexp.MustCompile("(?m)" + pattern)
	return check{wrong: func(output string) string {
		if wanted.MatchString(output) {
			return ""
		}
		return fmt.Sprintf("its output does not match %q", pattern)
	}}
}

// lacks expects that no output matches.
func lacks(pattern string) check {
	unwanted := regexp.MustCompile("(?m)" + pattern)
	return check{wrong: func(output string) string {
		if !unwanted.MatchString(output) {
			return ""
		}
		return fmt.Sprintf("its output matches %q", pattern)
	}}
}

// judge says what is wrong; nothing if the outcome is as expected.
func judge(got outcome, checks []check) string {
	status := 0
	var wrong []string
	for _, c := range checks {
		if c.status != nil {
			status = *c.status
			continue
		}
		if text := c.wrong(got.output); text != "" {
			wrong = append(wrong, text)
		}
	}
	if got.status != status {
		wrong = append([]string{fmt.Sprintf("its exit status is %d, not %d", got.status, status)}, wrong...)
	}
	return strings.Join(wrong, "; ")
}

// do shows a command, runs it, shows its output and checks both.
func do(command string, checks ...check) part {
	return func(ctx context.Context, s *stage) error {
		s.screen.command(command)
		limited, cancel := context.WithTimeoutCause(ctx, commandTimeout,
			fmt.Errorf("`%s` did not end within %s", command, commandTimeout))
		defer cancel()
		output, status, err := s.shell.run(limited, command)
		s.screen.output(output)
		if err != nil {
			return err
		}
		if wrong := judge(outcome{status: status, output: output}, checks); wrong != "" {
			return fmt.Errorf("`%s`: %s", command, wrong)
		}
		return nil
	}
}
