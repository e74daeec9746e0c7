# Sourced by the scripts that start from a fresh Debian or Ubuntu with Rust: installs system packages that are missing.

if [ -f "$HOME/.cargo/env" ]; then
    . "$HOME/.cargo/env"
fi
if ! command -v cargo >/dev/null; then
    echo "error: cargo is missing; install Rust from https://rustup.rs" >&2
    exit 1
fi

# need TEST PACKAGE...: notes the packages down if the command TEST fails.
missing=()
need() {
    local test=$1
    shift
    if ! eval "$test" >/dev/null 2>&1; then
        missing+=("$@")
    fi
}

# Installs what was noted down, in one go; nothing is asked of apt when nothing is missing.
install_missing() {
    if [ "${#missing[@]}" -eq 0 ]; then
        return
    fi
    local as_root=()
    if [ "$(id -u)" -ne 0 ]; then
        as_root=(sudo)
    fi
    if ! command -v apt-get >/dev/null; then
        echo "error: install what these packages of Debian hold: ${missing[*]}" >&2
        exit 1
    fi
    echo "==> installing ${missing[*]}"
    "${as_root[@]}" apt-get update -qq
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends "${missing[@]}"
}

need "command -v cc" build-essential
need "command -v python3" python3
need "python3 -c 'import venv, ensurepip'" python3-venv
