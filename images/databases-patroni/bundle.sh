#!/bin/sh
# bundle.sh DEST makes the relocatable bundle of Python and Patroni from the Debian bookworm system that it runs in: a
# stage of the Dockerfile, or the root that dev/images makes. It needs patchelf there, and Patroni installed by pip or
# as a Debian package.
#
#   DEST/bin/python3.11       finds everything below from where it lies, so the bundle runs from any folder
#   DEST/lib/python311.zip    the standard library; what of it is compiled from C is in DEST/lib/python3.11
#   DEST/lib/python3/dist-packages   Patroni and what it imports
#   DEST/syslib               shared libraries, without glibc: that is the image's own
set -eu
dest=$1
python=python3.11
stdlib=$dest/lib/$python
packages=$dest/lib/python3/dist-packages

mkdir -p "$dest/bin" "$dest/lib" "$packages" "$dest/syslib"
cp /usr/bin/$python "$dest/bin/$python"
cp -RL /usr/lib/$python "$dest/lib/"
rm -rf "$stdlib"/config-* "$stdlib"/ensurepip "$stdlib"/idlelib "$stdlib"/lib2to3 "$stdlib"/pydoc_data \
	"$stdlib"/sqlite3 "$stdlib"/test "$stdlib"/tkinter "$stdlib"/turtle* "$stdlib"/unittest "$stdlib"/EXTERNALLY-MANAGED \
	"$stdlib"/lib-dynload/_test* "$stdlib"/lib-dynload/_xx* "$stdlib"/lib-dynload/_curses* "$stdlib"/lib-dynload/readline* \
	"$stdlib"/lib-dynload/_crypt* "$stdlib"/lib-dynload/_sqlite3* "$stdlib"/lib-dynload/nis* "$stdlib"/lib-dynload/_dbm* "$stdlib"/lib-dynload/_gdbm*

# By name: a root may hold more than Patroni needs. What isn't there is another packaging's name for the same.
for module in patroni psycopg2 psycopg2_binary.libs yaml _yaml dateutil six.py urllib3 psutil click prettytable wcwidth ydiff.py ydiff cdiff.py; do
	for from in /usr/local/lib/$python/dist-packages /usr/lib/python3/dist-packages; do
		[ -e "$from/$module" ] || continue
		cp -RL "$from/$module" "$packages/"
		break
	done
done
# Some ask for their own version at run time.
for from in /usr/local/lib/$python/dist-packages /usr/lib/python3/dist-packages; do
	for module in patroni prettytable wcwidth click ydiff; do
		[ ! -d "$from" ] || find "$from" -maxdepth 1 -iname "$module-*-info" -exec cp -RL {} "$packages/" \;
	done
done
rm -rf "$packages"/psutil/tests "$packages"/psycopg2/tests
find "$dest" -name __pycache__ -prune -exec rm -rf {} +

# The closure of shared libraries. What libc6 brings must come from the image: it fits its own loader only.
find "$dest" -type f \( -name '*.so' -o -name '*.so.*' -o -name $python \) -exec ldd {} + 2>/dev/null |
	sed -n 's|.* => \(/[^ ]*\) (.*|\1|p' | sort -u |
	while read -r library; do
		case ${library##*/} in
		libc.so.* | libm.so.* | libdl.so.* | librt.so.* | libutil.so.* | libpthread.so.* | libresolv.so.* | libnsl.so.* | ld-linux*) ;;
		*) case $library in "$dest"/*) ;; *) cp -L "$library" "$dest/syslib/" ;; esac ;;
		esac
	done

# DT_RPATH, not DT_RUNPATH: it is searched for the libraries of libraries too, before the image's own, and unlike
# LD_LIBRARY_PATH it isn't inherited by the PostgreSQL programs that Patroni starts.
# shellcheck disable=SC2016 # $ORIGIN is for the loader
patchelf --force-rpath --set-rpath '$ORIGIN/../syslib' "$dest/bin/$python"

# Every start of a pod copies the bundle, and pays for each file. So Python's own library is one archive, as in the packages
# that Python offers for embedding (what finds the library by os.pyc, and what is compiled from C, stay files), and modules are
# there compiled only. "unchecked" because copying changes the files' times.
"$dest/bin/$python" -I -B -m compileall -q -b --invalidation-mode unchecked-hash "$dest/lib" >/dev/null || true
find "$dest/lib" -name '*.py' -exec sh -c 'for source; do [ ! -e "${source}c" ] || rm "$source"; done' sh {} +
"$dest/bin/$python" -I -B - "$stdlib" "$dest/lib/python311.zip" <<'archive'
import os, sys, zipfile
library, archive = sys.argv[1:]
with zipfile.ZipFile(archive, "w") as z:
    for folder, _, files in sorted(os.walk(library)):
        if os.path.basename(folder) != "lib-dynload":
            for name in sorted(files):
                path = os.path.join(folder, name)
                z.write(path, os.path.relpath(path, library))
archive
find "$stdlib" -mindepth 1 -maxdepth 1 ! -name lib-dynload ! -name os.pyc -exec rm -rf {} +
"$dest/bin/$python" -I -B -c 'import patroni.__main__, patroni.ctl, patroni.dcs.kubernetes, psycopg2, urllib3, yaml, multiprocessing.spawn, ssl, json, encodings.idna'
chmod -R a+rX "$dest"
