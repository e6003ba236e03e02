#!/bin/sh
# Makes the certificates of the tests anew, valid from 2020 to 2120: ./make.sh, with OpenSSL 3. They are good for
# nothing else.
set -eu
cd "$(dirname "$0")"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
from=20200101000000Z
to=21200101000000Z

cat >"$work/ca.cnf" <<END
[ca]
default_ca = c
[c]
database = $work/index
serial = $work/serial
crlnumber = $work/number
new_certs_dir = $work
default_md = sha256
policy = p
[p]
commonName = supplied
[authority]
basicConstraints = critical, CA:true
[broker]
subjectAltName = DNS:localhost, IP:127.0.0.1
[elsewhere]
subjectAltName = DNS:elsewhere.example
[client]
extendedKeyUsage = clientAuth
END
: >"$work/index"
echo 01 >"$work/number"

request() { # NAME
    openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out "$work/$1.key" 2>/dev/null
    openssl req -new -config /dev/null -key "$work/$1.key" -subj "/CN=$1" -out "$work/$1.csr"
}

ca() { openssl ca -config "$work/ca.cnf" -batch -notext "$@" 2>/dev/null; }

certificate() { # NAME EXTENSIONS HOW...
    name=$1 extensions=$2
    shift 2
    ca -rand_serial -startdate $from -enddate $to -extensions "$extensions" -in "$work/$name.csr" -out "$name.pem" "$@"
}

for name in authority another-authority; do
    request $name
    certificate $name authority -selfsign -keyfile "$work/$name.key"
done
signer="-cert authority.pem -keyfile $work/authority.key"
for name in broker elsewhere client; do
    request $name
    certificate $name $name $signer
done
cp "$work/broker.key" broker.key
cp "$work/elsewhere.key" elsewhere.key
openssl pkcs8 -topk8 -v2 aes-256-cbc -in "$work/client.key" -passout pass:of-the-key -out client.key

# The list of revoked certificates, which has the broker's in it.
ca $signer -revoke broker.pem
ca $signer -gencrl -crl_lastupdate $from -crl_nextupdate $to -out revoked.pem
