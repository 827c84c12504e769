// The program chart makes what the Helm chart in deploy/chart has in common with the manifests in deploy/kustomize, from those
// manifests: each template is the manifest's own text, comments included, with some lines replaced by template actions.
// `make generate` runs it. What no manifest has (values, their schema, helpers, notes) is written by hand beside the templates.
//
// A text is edited, not a tree, so that the templates stay readable. A line to be replaced that isn't there is an error, so
// that a change of a manifest can't be lost on the way; and the tests compare what both render, object by object.
//
// Invariants:
//   - Nothing that a manifest says is said again here.
//   - The same manifests give the same chart.
package main
