# SPDX-License-Identifier: GPL-2.0-only
# Shared by the scripts of this directory; sourced, not run.

# Installs those packages of the given lists that are missing; says nothing and asks for no rights if none is.
install_packages()
{
    local wanted missing=() name state
    wanted=$(sed 's/#.*//' "$@")
    for name in $wanted; do
        state=$(dpkg-query -W -f='${Status}' "$name" 2>/dev/null || true)
        [ "$state" = "install ok installed" ] || missing+=("$name")
    done
    [ ${#missing[@]} -gt 0 ] || return 0
    local sudo=()
    if [ "$(id -u)" -ne 0 ]; then
        command -v sudo >/dev/null || {
            echo "missing packages: ${missing[*]}; install them as root (no sudo here)" >&2
            return 1
        }
        sudo=(sudo)
    fi
    echo "installing: ${missing[*]}" >&2
    "${sudo[@]}" apt-get update -qq
    "${sudo[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
        "${missing[@]}" >&2
}

# Configures a preset, again if the presets changed; for all else ninja notices by itself when CMake must run.
configure()
{
    local preset=$1
    shift
    if [ ! -f "build/$preset/build.ninja" ] || [ CMakePresets.json -nt "build/$preset/build.ninja" ]; then
        cmake --preset "$preset" "$@" >&2
    fi
}
