# Is sourced by the tests of the program. It makes a fresh working folder with the jobs and data
# that they name and a fixed profile of this computer, and defines the functions by which a test
# says what is wrong.
set -u
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
unset OMP_NUM_THREADS SM_HOSTS
export XDG_DATA_HOME=$work/share XDG_CACHE_HOME=$work/cache
mkdir -p share/meshwright folder held/step-00000003
cp "$here/local.json" share/meshwright/local.json
cp "$here"/{tiny,no_steps,searched,mpi_options}.json .
: >empty
printf 'abc' >short
printf 'hello world, this is text of more than seventeen bytes' >text
printf '{"model": ' >broken.json

failures=0
wrong() {
  printf 'WRONG: %s\n' "$1" >&2
  failures=$((failures + 1))
}
same() { # same WHAT EXPECTED FOUND
  [ "$2" = "$3" ] && return
  wrong "$1"
  diff <(printf '%s\n' "$2") <(printf '%s\n' "$3") >&2
}
finish() {
  [ "$failures" -eq 0 ] || { echo "$failures wrong" >&2; exit 1; }
  exit 0
}
