module github.com/example/databases/dev/cluster

go 1.26.0
