# Is sourced, after common.sh, by tests over two hosts. The hosts are network namespaces of this
# computer with a link between them: $a and $b are their addresses, $space_a and $space_b their
# names. If this computer does not allow that, the test says so and is skipped (exit code 77).
a=10.199.$((RANDOM % 250)).$((RANDOM % 60 * 4 + 1))
b=${a%.*}.$((${a##*.} + 1))
space_a=mwa$$ space_b=mwb$$

skip() {
  echo "skipped: two hosts: $1"
  exit 77
}
remove_hosts() {
  local space process
  for space in "$space_a" "$space_b"; do
    for process in $(ip netns pids "$space" 2>/dev/null); do kill -9 "$process" 2>/dev/null; done
    ip netns del "$space" 2>/dev/null
  done
  rm -rf "$work"
}
make_hosts() { # make_hosts [TC WORDS...]: what limits the link
  [ "$(id -u)" -eq 0 ] || skip "namespaces need root"
  local tool side limit=("$@")
  for tool in ip tc unshare; do command -v "$tool" >/dev/null || skip "no $tool here (package iproute2 or util-linux)"; done
  trap remove_hosts EXIT
  {
    ip netns add "$space_a" && ip netns add "$space_b" &&
      ip link add "mwl$$a" type veth peer name "mwl$$b" &&
      ip link set "mwl$$a" netns "$space_a" name eth0 && ip link set "mwl$$b" netns "$space_b" name eth0
  } 2>err || skip "no network namespaces: $(tail -n 1 err)"
  for side in "$space_a $a" "$space_b $b"; do
    set -- $side
    ip -n "$1" addr add "$2/30" dev eth0 && ip -n "$1" link set lo up && ip -n "$1" link set eth0 up || return
    [ ${#limit[@]} -eq 0 ] || ip netns exec "$1" tc qdisc add dev eth0 root "${limit[@]}" || return
  done 2>err
}
# make_agent FILE [FOLDER_B FOLDER]: writes a program that stands in for SSH: it takes a HOST and words, which a shell
# there runs, and gives each host a name of its own. With folders, the second host sees FOLDER_B as FOLDER.
make_agent() {
  local own=""
  [ $# -eq 1 ] || own="mount --bind '$2' '$3' &&"
  cat >"$1" <<END
#!/bin/sh
host=\$1
shift
case \$host in
  $a) exec "$here/two_hosts_on" $space_a sh -c "\$*" ;;
  $b) exec unshare --mount sh -c "$own exec '$here/two_hosts_on' $space_b \$*" ;;
  *) echo "unknown host \$host" >&2; exit 255 ;;
esac
END
  chmod +x "$1"
}

# The functions below use these hosts in several tests.
over_two_hosts() { # tiny.json becomes a job of one rank on each host, which `agent` reaches
  printf '%s\n%s\n' "$a" "$b" >hosts
  export OMP_NUM_THREADS=1 OMPI_MCA_plm_rsh_agent=$work/agent
  sed -i 's/"processes_per_host": 2/"count": 2, "processes_per_host": 1, "network": {"nics": 1, "gbps_per_nic": 10, "latency_us": 100}/' tiny.json
}
on_hosts() { # on_hosts ARGUMENTS...: the launcher is on the first host
  "$here/two_hosts_on" "$space_a" "$program" train tiny.json --hostfile hosts "$@" >out 2>err
}
launch() { # launch ARGUMENTS...: in the background, as $launcher
  rm -f out err
  exec env --default-signal=INT "$here/two_hosts_on" "$space_a" "$program" train tiny.json --hostfile hosts "$@" >out 2>err &
  launcher=$!
}
begin() { # begin ARGUMENTS...: a run that ends only when it is disturbed, until its first step
  launch --set training.steps=100000000 "$@"
  until_true 600 has_stepped || wrong "no step: $(cat err)"
}
link() { ip -n "$space_b" link set eth0 "$1"; }
daemon_of() { # daemon_of SPACE
  local process
  for process in $(ip netns pids "$1"); do
    [ "$(cat "/proc/$process/comm" 2>/dev/null)" = orted ] && echo "$process"
  done
}
# Kills what a cut link leaves on the other host. Those processes would end when TCP notices the
# cut, for which the tests do not wait.
end_what_is_left() {
  local process
  for process in $(ip netns pids "$space_b"); do kill -9 "$process" 2>/dev/null; done
  until_true 600 no_daemons || wrong "left on the other host: $(ip netns pids "$space_b")"
}
no_daemons() { [ -z "$(ip netns pids "$space_b")" ]; }
