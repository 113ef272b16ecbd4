#!/bin/sh
# Makes the certificates beside it (OpenSSL 3): ca.pem, and one PEM of key and chain for each way to be good or bad.
# Valid for a hundred years where not said otherwise. The keys guard nothing but tests on loopback.
set -eu
cd "$(dirname "$0")"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

authority() { # name, common name
    openssl ecparam -name prime256v1 -genkey -noout -out "$work/$1.key"
    openssl req -x509 -new -key "$work/$1.key" -days 36500 -subj "/CN=$2" -out "$work/$1.crt" \
        -addext basicConstraints=critical,CA:TRUE -addext keyUsage=critical,keyCertSign
}

issue() { # file, issuer, subject, extensions, start, end
    mkdir -p "$work/db"
    : >"$work/db/index.txt"
    openssl ecparam -name prime256v1 -genkey -noout -out "$work/leaf.key"
    openssl req -new -key "$work/leaf.key" -subj "$3" -out "$work/leaf.csr"
    printf '%s\n' '[ca]' 'default_ca=d' '[d]' "database=$work/db/index.txt" "new_certs_dir=$work/db" 'rand_serial=yes' \
        'default_md=sha256' 'policy=p' 'unique_subject=no' '[p]' 'commonName=supplied' '[x]' 'keyUsage=digitalSignature' 'subjectKeyIdentifier=hash' 'authorityKeyIdentifier=keyid' \
        "$4" >"$work/ca.cnf"
    openssl ca -batch -notext -config "$work/ca.cnf" -extensions x -cert "$work/$2.crt" -keyfile "$work/$2.key" \
        -startdate "$5" -enddate "$6" -in "$work/leaf.csr" -out "$work/leaf.crt" 2>/dev/null
    cat "$work/leaf.key" "$work/leaf.crt" >"$1.pem"
}

names='subjectAltName=DNS:localhost,IP:127.0.0.1'
authority ca 'Test authority'
authority stranger 'Authority that nobody trusts'
cp "$work/ca.crt" ca.pem
issue good ca /CN=localhost "$names" 20200101000000Z 21200101000000Z
issue expired ca /CN=localhost "$names" 20200101000000Z 20210101000000Z
issue not-yet-valid ca /CN=localhost "$names" 21100101000000Z 21200101000000Z
issue wrong-name ca /CN=localhost 'subjectAltName=DNS:other.example' 20200101000000Z 21200101000000Z
issue wrong-address ca /CN=localhost 'subjectAltName=DNS:localhost,IP:127.0.0.2' 20200101000000Z 21200101000000Z
issue name-only-in-subject ca /CN=127.0.0.1 'basicConstraints=CA:FALSE' 20200101000000Z 21200101000000Z
issue for-clients-only ca /CN=localhost "$names
extendedKeyUsage=clientAuth" 20200101000000Z 21200101000000Z
issue unknown-authority stranger /CN=localhost "$names" 20200101000000Z 21200101000000Z
openssl ecparam -name prime256v1 -genkey -noout -out "$work/self.key"
openssl req -x509 -new -key "$work/self.key" -days 36500 -subj /CN=localhost -out "$work/self.crt" -addext "$names"
cat "$work/self.key" "$work/self.crt" >self-signed.pem
