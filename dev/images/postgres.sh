#!/bin/sh
# postgres.sh STAGE MAJOR runs inside a Debian root while mmdebstrap makes it. It imitates the official image
# postgres:MAJOR and takes out what neither PostgreSQL nor a test needs: what is smaller is imported faster.
set -eu
stage=$1 major=$2

# Before PostgreSQL's packages: the user gets the official image's ids, and no server is made.
if [ "$stage" = essential ]; then
	echo 'postgres:x:999:999::/var/lib/postgresql:/bin/bash' >>/etc/passwd
	echo 'postgres:x:999:' >>/etc/group
	mkdir -p /etc/postgresql-common
	echo 'create_main_cluster = false' >/etc/postgresql-common/createcluster.conf
	exit
fi

localedef -i en_US -c -f UTF-8 -A /usr/share/locale/locale.alias en_US.UTF-8

# Debian's psql and others are Perl scripts that pick a version; here there is only one.
for program in "/usr/lib/postgresql/$major/bin"/*; do
	ln -sf "../lib/postgresql/$major/bin/${program##*/}" "/usr/bin/${program##*/}"
done

mkdir -p /var/lib/postgresql/data /var/run/postgresql
rm -rf /var/lib/postgresql/data/* /etc/postgresql
chown -R 999:999 /var/lib/postgresql /var/run/postgresql
chmod 1777 /var/lib/postgresql/data
chmod 3777 /var/run/postgresql
cat >/usr/local/bin/docker-entrypoint.sh <<'EOF'
#!/bin/sh
echo 'docker-entrypoint.sh: a stand-in; the operator never runs it' >&2
exit 1
EOF
chmod 0755 /usr/local/bin/docker-entrypoint.sh

lib=/usr/lib/$(uname -m)-linux-gnu
postgres=/usr/lib/postgresql/$major/lib
find /usr/share/locale -mindepth 1 -maxdepth 1 ! -name locale.alias -exec rm -rf {} +
rm -rf "$lib"/libLLVM* "$lib"/libz3* /usr/lib/llvm* "$postgres/bitcode" "$postgres"/llvmjit* "$postgres/pgxs"
rm -rf /usr/share/perl* /usr/bin/perl* "$lib/perl" "$lib/perl-base" "$lib"/libperl.so*
rm -rf /usr/lib/apt /usr/bin/apt* "$lib"/libapt-* /var/lib/apt /var/lib/dpkg/info "$lib/gconv" /usr/lib/systemd
rm -rf /usr/share/doc /usr/share/man /usr/share/info /usr/share/lintian /usr/share/i18n /usr/share/bash-completion \
	/usr/share/postgresql-common "/usr/share/postgresql/$major/man" /usr/share/zoneinfo/right /usr/share/zoneinfo/posix
rm -rf /var/cache/* /var/log/* "$0"
