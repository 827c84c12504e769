package main

// story is all that the demo tells.
var story = []scene{
	{
		title: "A Kubernetes, a PostgreSQL and the controller",
		parts: []part{
			say(`For two minutes this machine gets a Kubernetes and a PostgreSQL server, both new and empty, in temporary
				folders. Where it can (on Linux, as root), Kubernetes gets a node, on which pods run; only the last step needs
				them. Clusters and servers that you have are not touched. Only the very first time, Kubernetes and the
				controller have to be compiled and the pods' images made, which takes about ten minutes more on a machine
				with two cores.`),
			prepare, startKubernetes, startPostgres, buildController, openShell,
			do("kubectl version", prints(`^Server Version: v1\.`)),
			say(`The controller's login at PostgreSQL may make roles and databases, and that is all: it is no superuser. Its
				connection string, password included, is in a file that only its owner can read.`),
			do(`psql service=admin -c '\du `+adminRole+`'`, prints(adminRole+` +\| Create role, Create DB`), lacks("Superuser")),
			do("ls -l admin.dsn", prints(`^-rw------- `)),
			say(`Kubernetes learns the new kinds of resource, and the controller starts. Here it is a process of this machine;
				in a real installation it is a pod.`),
			do("kubectl apply --server-side -f api/crds", prints(`/databases\.postgres\.example\.com serverside-applied$`),
				prints(`/databases\.database\.example\.com serverside-applied$`)),
			do("kubectl wait --for=condition=Established --timeout=60s crd --all", prints("databases.database.example.com condition met")),
			startController,
		},
		lesson: "The controller works with a PostgreSQL admin that is no superuser.",
	},
	{
		title: "Ask for a database",
		parts: []part{
			say(`Ten lines are all that a team writes:`),
			file("orders.yaml", `# A database named orders, and a role of that name which owns it.
apiVersion: postgres.example.com/v1alpha1
kind: Database
metadata:
  name: orders
  namespace: default
spec:
  name: orders
  # What deleting this resource does in PostgreSQL: Retain (the default) leaves everything.
  deletionPolicy: Retain
`),
			do("kubectl apply -f orders.yaml", prints("/orders created$")),
			do("kubectl wait --for=condition=Ready --timeout=60s pgdb/orders", prints("condition met$")),
			do("kubectl get pgdb", prints(`^orders +True +Provisioned +orders +orders-postgres +\d+s$`)),
			say(`The role and the database are there. How to log in is in a Secret, of which kubectl shows the keys but not
				the values:`),
			do("kubectl describe secret orders-postgres", prints(`^Type: +servicebinding\.io/postgresql$`), prints(`^password: +\d+ bytes$`),
				prints(`^uri: +\d+ bytes$`), prints(`^jdbc-url: +\d+ bytes$`), lacks("postgresql://")),
			say(`Two shell functions take the login out of a Secret into the variables that psql reads. (A password in a
				command's arguments can be read by everybody on the machine.)`),
			do(`value() { # NAME NAMESPACE KEY
  kubectl get secret "$1-postgres" -n "$2" -o go-template="{{.data.$3 | base64decode}}"
}`),
			do(`pglogin() { # NAME NAMESPACE
  export PGHOST="$(value "$1" "$2" host)" PGPORT="$(value "$1" "$2" port)"
  export PGDATABASE="$(value "$1" "$2" database)" PGSSLMODE="$(value "$1" "$2" sslmode)"
  export PGUSER="$(value "$1" "$2" username)" PGPASSWORD="$(value "$1" "$2" password)"
}`),
			do("pglogin orders default"),
			do(`psql -c 'CREATE TABLE item (id int PRIMARY KEY, name text)' \
    -c "INSERT INTO item VALUES (1, 'blue bicycle')"`, prints("^CREATE TABLE$"), prints("^INSERT 0 1$")),
			do("psql -c 'SELECT current_user, current_database(), item.* FROM item'", prints(`^ orders +\| orders +\| +1 \| blue bicycle$`)),
		},
		lesson: "Ten lines of YAML gave a role, a database and a Secret to log in with.",
	},
	{
		title: "Change the password",
		parts: []part{
			say(`Deleting the Secret is all it takes. The controller makes a new password, sets it in PostgreSQL, and writes
				a new Secret. We keep the old password to try it afterwards.`),
			do("old=$PGPASSWORD"),
			do("kubectl delete secret orders-postgres", prints(`^secret "orders-postgres" deleted`)),
			do("kubectl wait --for=create --timeout=60s secret/orders-postgres", prints("condition met$")),
			do("pglogin orders default"),
			do("psql -c 'TABLE item'", prints(`^ +1 \| blue bicycle$`)),
			say(`The new password logs in, and the data is as it was. The old password must not log in any more:`),
			do("PGPASSWORD=$old psql -c 'TABLE item'", exits(2), prints(`FATAL: +password authentication failed for user "orders"$`)),
			say(`Neither password is in the controller's log. (How many of its lines hold one of them?)`),
			do(`printf '%s\n' "$old" "$PGPASSWORD" | grep -cFf - `+controllerLog, exits(1), prints("^0$")),
		},
		lesson: "Deleting the Secret changed the password; the old one is refused, the data is as it was.",
	},
	{
		title: "Tenants don't see each other",
		parts: []part{
			say(`Another team, in another namespace, asks for a database of the same name. It must not get the first one's.`),
			do("kubectl create namespace rival", prints("^namespace/rival created$")),
			file("rival.yaml", `apiVersion: postgres.example.com/v1alpha1
kind: Database
metadata:
  name: orders
  namespace: rival
spec:
  name: orders
`),
			do("kubectl apply -f rival.yaml", prints("/orders created$")),
			do("kubectl wait --for=condition=Ready=False --timeout=60s -n rival pgdb/orders", prints("condition met$")),
			do("kubectl get pgdb -A", prints(`^default +orders +True +Provisioned `), prints(`^rival +orders +False +NameConflict `)),
			do(`kubectl get pgdb orders -n rival \
    -o jsonpath='{.status.conditions[?(@.type=="Ready")].message}{"\n"}'`, prints(`"orders" is taken by a Database of another namespace`)),
			do("kubectl get secrets -n rival", prints("^No resources found in rival namespace")),
			say(`With a name of its own the team gets a database. It can log in there, but not to the first team's:`),
			file("invoices.yaml", `apiVersion: postgres.example.com/v1alpha1
kind: Database
metadata:
  name: invoices
  namespace: rival
spec:
  name: invoices
  deletionPolicy: Delete
`),
			do("kubectl apply -f invoices.yaml", prints("/invoices created$")),
			do("kubectl wait --for=condition=Ready --timeout=60s -n rival pgdb/invoices", prints("condition met$")),
			do("pglogin invoices rival"),
			do("psql -c 'SELECT current_user, current_database()'", prints(`^ invoices +\| invoices$`)),
			do("PGDATABASE=orders psql -c 'TABLE item'", exits(2), prints(`FATAL: +permission denied for database "orders"$`),
				lacks("bicycle")),
		},
		lesson: "A second tenant can't take the first one's name, nor connect to its database.",
	},
	{
		title: "Delete",
		parts: []part{
			say(`Both Databases go, orders with the policy Retain, invoices with Delete.`),
			awaitCollector,
			do("kubectl delete pgdb orders", prints(`"orders" deleted`)),
			do("kubectl delete pgdb invoices -n rival", prints(`"invoices" deleted`)),
			say(`In PostgreSQL, as the admin sees it, orders is left as it was, and of invoices there is nothing:`),
			do(`psql service=admin -c "SELECT rolname AS role, datname AS database
    FROM pg_roles FULL JOIN pg_database ON rolname = datname
    WHERE 'orders' IN (rolname, datname) OR 'invoices' IN (rolname, datname)"`,
				prints(`^ orders +\| orders$`), prints(`^\(1 row\)$`), lacks("invoices")),
			say(`In Kubernetes both Secrets go, whatever the policy:`),
			do("kubectl wait --for=delete --timeout=90s secret/orders-postgres"),
			do("kubectl wait --for=delete --timeout=90s -n rival secret/invoices-postgres"),
			do("kubectl get secrets -A", prints("^No resources found")),
			say(`The other team's Database orders is still refused, for the name stays with the namespace that had it. Applying
				the first one again brings its data back, with a new password:`),
			do("kubectl apply -f orders.yaml", prints("/orders created$")),
			do("kubectl wait --for=condition=Ready --timeout=60s pgdb/orders", prints("condition met$")),
			do("kubectl get pgdb -A", prints(`^default +orders +True +Provisioned `), prints(`^rival +orders +False +NameConflict `)),
			do("pglogin orders default"),
			do("psql -c 'TABLE item'", prints(`^ +1 \| blue bicycle$`)),
		},
		lesson: "Deleting leaves the data, unless the policy is Delete: then nothing is left.",
	},
	aServer,
}
