//go:build linux

package faults

import (
	"os"
	"testing"

	"github.com/example/databases/internal/testenv"
)

func TestMain(m *testing.M) { os.Exit(testenv.Main(m)) }
