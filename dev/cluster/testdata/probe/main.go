// Command probe is what the tests run in pods.
//
//	probe serve        answers with its host name on port 8080, or to /from with the asker's address
//	probe get URL      prints what the URL answers
//	probe who          prints user and group
//	probe fill FILE    writes until it can't and prints how many MiB it wrote and why it stopped
package main

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"time"
)

func main() {
	if err := do(os.Args[1:]); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
}

func do(arguments []string) error {
	switch arguments[0] {
	case "serve":
		fmt.Println("serving")
		return http.ListenAndServe(":8080", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if host, _, err := net.SplitHostPort(r.RemoteAddr); err == nil && r.URL.Path == "/from" {
				fmt.Fprint(w, host)
				return
			}
			name, _ := os.Hostname()
			fmt.Fprintln(w, "this is", name)
		}))
	case "get":
		client := http.Client{Timeout: 5 * time.Second}
		response, err := client.Get(arguments[1])
		if err != nil {
			return err
		}
		defer response.Body.Close()
		_, err = io.Copy(os.Stdout, response.Body)
		return err
	case "who":
		fmt.Println(os.Getuid(), os.Getgid())
		return nil
	case "fill":
		return fill(arguments[1])
	}
	return fmt.Errorf("unknown: %q", arguments)
}

func fill(file string) error {
	f, err := os.OpenFile(file, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	block := make([]byte, 1<<20)
	for written := 0; ; written++ {
		if _, err := f.Write(block); err != nil {
			fmt.Println(written, err)
			return f.Close()
		}
	}
}
