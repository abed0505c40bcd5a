# Is sourced, after common.sh, by tests that start a run in the background and disturb it. Each wait
# ends when something has happened, with a generous limit, so that no test depends on how fast this
# computer is.
deadline=20  # seconds, where one is to pass: a run begins sooner, however busy the computer is
until_true() { # until_true SECONDS COMMAND...
  local tries=$(($1 * 10))
  shift
  while ! "$@"; do
    tries=$((tries - 1))
    [ "$tries" -gt 0 ] || return 1
    sleep 0.1
  done
}
has_stepped() { grep -qs "^ *[0-9]* .*e-0" out err; }
is_gone() { ! kill -0 "$1" 2>/dev/null; }
ranks() { pgrep -f -- "^$program train .*--as-rank --run-name meshwright-$launcher( |\$)" || true; }
has_ranks() { [ -n "$(ranks)" ]; }
no_ranks() { [ -z "$(ranks)" ]; }
rank_process() { # rank_process N: the process of rank N
  local process
  for process in $(ranks); do
    grep -zqsx "OMPI_COMM_WORLD_RANK=$1" "/proc/$process/environ" && echo "$process"
  done
}

has_rank() { [ -n "$(rank_process "$1")" ]; }

# Starts a run of many steps and waits for its first one. Its process is $launcher.
start() {
  rm -f out err  # what an earlier run said is no sign of this one's first step
  env --default-signal=INT "$program" train tiny.json --set training.steps=2000 "$@" >out 2>err &
  launcher=$!
  until_true 600 has_stepped || wrong "no step was seen: $(cat err)"
}
ends_with() { # ends_with WHAT CODE
  until_true 600 is_gone "$launcher" || { wrong "$1: still running"; kill -9 "$launcher"; }
  wait "$launcher"
  same "$1: exit code" "$2" "$?"
  until_true 600 no_ranks || wrong "$1: stray processes $(ranks | tr '\n' ' ')"
}
value() { sed -n "s/.*\"$1\": \"\{0,1\}\([^\",]*\).*/\1/p" out; }
alone="--set cluster.processes_per_host=1 --set parallelism.data=1"
