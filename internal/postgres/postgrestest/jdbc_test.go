package postgrestest

import (
	"fmt"
	"net/url"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestJDBCConnectLogsInWithEachURL(t *testing.T) {
	server := Start(t, Options{Major: 18})
	const password = `p w@c:d/e?f#g%h"&=+é\`
	execute(t, server, `CREATE ROLE "user é" LOGIN PASSWORD '`+password+`'`, `CREATE DATABASE "data é"`)
	at := func(user, password, database string) string {
		return fmt.Sprintf("jdbc:postgresql://%s:%d/%s?user=%s&password=%s", server.Host(), server.Port(),
			url.PathEscape(database), url.QueryEscape(user), url.QueryEscape(password))
	}
	got := JDBCConnect(t,
		at("user é", password, "data é"),
		at("user é", "wrong", "data é"),
		at("postgres", server.password, "postgres"),
	)
	if len(got) == 3 && strings.Contains(got[1].Refused, "password authentication failed") {
		got[1].Refused = "password"
	}
	want := []JDBCLogin{
		{User: "user é", Database: "data é"},
		{Refused: "password"},
		{User: "postgres", Database: "postgres"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("logins (-want +got):\n%s", diff)
	}
}
