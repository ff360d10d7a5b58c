#!/usr/bin/env bash
# A Docker engine for a machine that has none (Debian, as root): images/engine.sh start FOLDER | stop FOLDER
#
# `start` prints the environment that reaches it (DOCKER_HOST, PATH).  The engine's packages come from the next Debian
# suite by way of a package list of its own, made from the machine's list: nothing else of the machine is upgraded.  All
# of its data lies in FOLDER; `stop` ends it and puts back what it changed in the kernel's forwarding.
# Exit code 3: no engine can be had here.
set -euo pipefail

suite_of_engine=trixie
here=$(cd "$(dirname "$0")/.." && pwd)

absent() {
  echo "no Docker engine can be had here: $1" >&2
  exit 3
}

install_engine() {
  local folder=$1 release
  [ "$(id -u)" = 0 ] || absent "installing one needs root"
  command -v apt-get >/dev/null || absent "this is no Debian system"
  # shellcheck source=/dev/null
  release=$(. /etc/os-release && echo "${VERSION_CODENAME:-}")
  [ -n "$release" ] || absent "the system does not say which Debian release it is"
  mkdir -p "$folder"/apt/{parts,lists/partial,preferences}
  local list
  list=$(grep --recursive --files-with-matches --include='*.sources' "Suites:.*\b$release\b" /etc/apt/sources.list.d | head -1) ||
    absent "no package list of $release was found"
  cp "$list" "$folder/apt/parts/here.sources"
  sed "s/\b$release\b/$suite_of_engine/g" "$list" >"$folder/apt/parts/next.sources"
  printf 'Package: *\nPin: release n=%s*\nPin-Priority: 100\n' "$suite_of_engine" >"$folder/apt/preferences/next"
  local options=(
    -o "Dir::Etc::SourceList=/dev/null" -o "Dir::Etc::SourceParts=$folder/apt/parts"
    -o "Dir::Etc::PreferencesParts=$folder/apt/preferences" -o "Dir::State::Lists=$folder/apt/lists"
  )
  apt-get "${options[@]}" update -qq >"$folder/apt.log" 2>&1 || absent "the package lists cannot be read"
  # runc is never named: the next suite's would upgrade the C library; the present suite's comes as a dependency.
  local packages=()
  for name in docker.io containerd docker-cli docker-buildx; do packages+=("$name/$suite_of_engine"); done
  DEBIAN_FRONTEND=noninteractive apt-get "${options[@]}" install -qq --no-install-recommends \
    "${packages[@]}" mmdebstrap >>"$folder/apt.log" 2>&1 || absent "its packages cannot be installed"
}

forwarding() { # prints what `stop` puts back
  echo "ip_forward $(cat /proc/sys/net/ipv4/ip_forward)"
  echo "policy $(iptables -S FORWARD 2>/dev/null | sed -n 's/^-P FORWARD //p')"
}

start() {
  local folder=$1
  mkdir -p "$folder"
  if docker info >/dev/null 2>&1; then
    echo "export DOCKER_HOST=${DOCKER_HOST:-unix:///var/run/docker.sock}"
    return
  fi
  [ -x /usr/sbin/dockerd ] && command -v mmdebstrap >/dev/null || install_engine "$folder"
  forwarding >"$folder/forwarding"
  # The image store of containerd writes OCI archives.
  echo '{"features": {"containerd-snapshotter": true}}' >"$folder/daemon.json"
  # In a session of its own: Ctrl-C reaches us first, and `stop` is what ends it.
  setsid /usr/sbin/dockerd --config-file "$folder/daemon.json" --host "unix://$folder/docker.sock" \
    --data-root "$folder/data" --exec-root "$folder/exec" --pidfile "$folder/docker.pid" \
    >"$folder/dockerd.log" 2>&1 </dev/null &
  export DOCKER_HOST=unix://$folder/docker.sock
  for _ in $(seq 120); do
    if /usr/bin/docker info >/dev/null 2>&1; then
      echo "export DOCKER_HOST=$DOCKER_HOST PATH=/usr/bin:\$PATH"
      return
    fi
    sleep 0.25
  done
  tail -5 "$folder/dockerd.log" >&2
  absent "dockerd does not answer"
}

stop() {
  local folder=$1
  [ -f "$folder/docker.pid" ] || return 0
  local pid
  pid=$(cat "$folder/docker.pid")
  kill "$pid" 2>/dev/null || true
  for _ in $(seq 120); do
    kill -0 "$pid" 2>/dev/null || break
    sleep 0.25
  done
  while read -r what value; do
    case $what in
    ip_forward) echo "$value" >/proc/sys/net/ipv4/ip_forward ;;
    policy) [ -z "$value" ] || iptables -P FORWARD "$value" ;;
    esac
  done <"$folder/forwarding"
  rm -rf "$folder/data" "$folder/exec"
}

case ${1:-} in
start | stop) "$1" "$(realpath -m "${2:?the folder of the engine}")" ;;
*)
  sed -n '2,7s/^# //p' "$here/images/engine.sh" >&2
  exit 2
  ;;
esac
