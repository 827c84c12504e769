package main

// aServer is the scene of the dedicated Database.
var aServer = scene{
	title:    "A server of one's own",
	needsPod: true,
	parts: []part{
		say(`So far, databases shared a server that was there before. The other kind of Database gets a PostgreSQL server of
			its own: a pod of the PostgreSQL image that it names, with a volume, run by Patroni. That is ten lines, too.`),
		file("ledger.yaml", `apiVersion: database.example.com/v1
kind: Database
metadata:
  name: ledger
spec:
  image: postgres:15
  databaseName: ledger
  username: ledger
  storage:
    size: 1Gi
`),
		do("kubectl get pgserver --watch >phases.txt & watch=$!"),
		do("kubectl apply -f ledger.yaml", prints("/ledger created$")),
		do("kubectl wait --for=condition=Ready --timeout=100s pgserver/ledger", prints("condition met$")),
		do("sleep 1; kill $watch; cat phases.txt", prints(`^ledger +Creating +1 `), prints(`^ledger +Ready +1 +true +\d+s$`)),
		do("kubectl get statefulset,pod,service,pvc -l database=ledger -o name", prints("^statefulset.apps/ledger$"),
			prints("^pod/ledger-0$"), prints("^service/ledger$"), prints("^persistentvolumeclaim/data-ledger-0$")),
		say(`A client is a pod as well. What the Secret ledger-credentials says, host included, is all that it needs:`),
		file("client.yaml", `apiVersion: v1
kind: Pod
metadata:
  name: client
spec:
  terminationGracePeriodSeconds: 0
  containers:
  - name: psql
    image: postgres:15
    command: [sleep, infinity]
    env:
    - {name: PGHOST, valueFrom: {secretKeyRef: {name: ledger-credentials, key: host}}}
    - {name: PGPORT, valueFrom: {secretKeyRef: {name: ledger-credentials, key: port}}}
    - {name: PGDATABASE, valueFrom: {secretKeyRef: {name: ledger-credentials, key: database}}}
    - {name: PGUSER, valueFrom: {secretKeyRef: {name: ledger-credentials, key: username}}}
    - {name: PGPASSWORD, valueFrom: {secretKeyRef: {name: ledger-credentials, key: password}}}
`),
		do("kubectl apply -f client.yaml", prints("^pod/client created$")),
		do("kubectl wait --for=condition=Ready --timeout=60s pod/client", prints("condition met$")),
		do(`kubectl exec client -- psql -c 'CREATE TABLE entry (id int PRIMARY KEY, note text)' \
    -c "INSERT INTO entry VALUES (1, 'opening balance')"`, prints("^CREATE TABLE$"), prints("^INSERT 0 1$")),
		do(`kubectl exec client -- psql -c "SELECT current_user, rolsuper, current_setting('server_version'), entry.*
    FROM entry, pg_roles WHERE rolname = current_user"`, prints(`^ ledger +\| f +\| 15\.\S+ .*\| +1 \| opening balance$`)),
		say(`The server's pod goes away. Kubernetes makes it again, and it finds its volume.`),
		do("kubectl delete pod ledger-0", prints(`^pod "ledger-0" deleted`)),
		do("kubectl wait --for=create --timeout=60s pod/ledger-0", prints("condition met$")),
		do("kubectl wait --for=condition=Ready --timeout=100s pod/ledger-0", prints("condition met$")),
		do("kubectl exec client -- sh -c 'until pg_isready; do sleep 1; done'", prints("accepting connections$")),
		do("kubectl exec client -- psql -c 'TABLE entry'", prints(`^ +1 \| opening balance$`)),
		say(`The password is changed as before, by deleting the Secret. The client still has the old one, so it is refused
			until it is started again.`),
		do("kubectl delete secret ledger-credentials", prints(`^secret "ledger-credentials" deleted`)),
		do("kubectl wait --for=create --timeout=60s secret/ledger-credentials", prints("condition met$")),
		do("kubectl exec client -- psql -c 'TABLE entry'", exits(2), prints(`password authentication failed for user "ledger"$`)),
		do("kubectl replace --force -f client.yaml", prints(`^pod/client replaced$`)),
		do("kubectl wait --for=condition=Ready --timeout=60s pod/client", prints("condition met$")),
		do("kubectl exec client -- psql -c 'TABLE entry'", prints(`^ +1 \| opening balance$`)),
		say(`Deleting the Database ends the server. The volume, and the data on it, stays: deletionPolicy is Retain unless
			one says Delete.`),
		do("kubectl delete pgserver ledger", prints(`"ledger" deleted`)),
		do("kubectl wait --for=delete --timeout=90s statefulset/ledger pod/ledger-0 secret/ledger-credentials"),
		do(`kubectl get pvc -o custom-columns=NAME:.metadata.name,STATUS:.status.phase,SIZE:.status.capacity.storage`,
			prints(`^data-ledger-0 +Bound +1Gi$`)),
		do("kubectl get events --field-selector reason=VolumesRetained -o jsonpath='{.items[0].message}{\"\\n\"}'",
			prints("^The volumes stay ")),
	},
	lesson: "Ten lines gave a PostgreSQL server; its data outlived its pod and outlives the Database.",
}
