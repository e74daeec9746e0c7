# Sourced by scripts that start on a fresh Debian or Ubuntu with Rust: installs missing system packages.

if [ -f "$HOME/.cargo/env" ]; then
    . "$HOME/.cargo/env"
fi
if ! command -v cargo >/dev/null; then
    echo "error: cargo is missing; install Rust from https://rustup.rs" >&2
    exit 1
fi

# need TEST PACKAGE...: adds the packages to the list of missing ones if the command TEST fails.
missing=()
need() {
    local test=$1
    shift
    if ! eval "$test" >/dev/null 2>&1; then
        missing+=("$@")
    fi
}

# Installs all missing packages at once; does not call apt-get if there are none.
install_missing() {
    if [ "${#missing[@]}" -eq 0 ]; then
        return
    fi
    local as_root=()
    if [ "$(id -u)" -ne 0 ]; then
        as_root=(sudo)
    fi
    if ! command -v apt-get >/dev/null; then
        echo "error: install the contents of these Debian packages: ${missing[*]}" >&2
        exit 1
    fi
    echo "==> installing ${missing[*]}"
    "${as_root[@]}" apt-get update -qq
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends \
        "${missing[@]}" >/dev/null
}

need "command -v cc && [ -e /usr/include/stdio.h ]" gcc libc6-dev
need "command -v python3" python3
need "python3 -c 'import venv, ensurepip'" python3-venv
# Cargo and pip download over TLS. Other distributions keep the certificates elsewhere.
need "[ -e /etc/ssl/certs/ca-certificates.crt ] || [ -e /etc/pki/tls/certs ] || [ -e /etc/ssl/cert.pem ]" ca-certificates
