#!/bin/sh
# The controller's admin: it may make databases and roles, and nothing more. psql reads the password by itself, so that it is
# in no argument and in no variable of the environment.
set -eu
psql --no-psqlrc --quiet -v ON_ERROR_STOP=1 -U postgres <<'SQL'
\set password `cat /etc/postgres/admin/password`
CREATE ROLE databases_admin LOGIN CREATEDB CREATEROLE PASSWORD :'password';
SQL
