"""An OpenID Connect provider that issues the ID token that a code asks for. Prints its address, and ends with its input.

A code is CASE.NONCE; the cases are the keys of CASES. The key that signs is replaced by each code of the case `rotated`.
"""

import base64
import hmac
import json
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs

from joserfc import jwt
from joserfc.jwk import ECKey, OKPKey, RSAKey

KEYS = {
    "RS256": RSAKey.generate_key(2048, {"kid": "rsa", "use": "sig"}),
    "PS384": RSAKey.generate_key(2048, {"kid": "pss", "alg": "PS384"}),
    "ES256": ECKey.generate_key("P-256", {"kid": "p256"}),
    "ES384": ECKey.generate_key("P-384", {"kid": "p384"}),
    "EdDSA": OKPKey.generate_key("Ed25519", {"kid": "ed"}),
}
ENCRYPTION = RSAKey.generate_key(2048, {"kid": "encryption", "use": "enc"})
DECRYPTION = RSAKey.import_key({**ENCRYPTION.as_dict(private=True), "use": "sig"})
STRANGER = RSAKey.generate_key(2048, {"kid": "rsa"})


def encoded(value):
    return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=").decode()


class Provider(BaseHTTPRequestHandler):
    def log_message(self, *_):
        pass

    def answer(self, value, status=200):
        body = value if isinstance(value, bytes) else json.dumps(value).encode()
        self.send_response(status)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        issuer = f"http://127.0.0.1:{self.server.server_port}"
        if self.path == "/.well-known/openid-configuration":
            self.answer({
                "issuer": issuer,
                "authorization_endpoint": f"{issuer}/authorize?tenant=a",
                "token_endpoint": f"{issuer}/token",
                "jwks_uri": f"{issuer}/keys",
                "token_endpoint_auth_methods_supported": ["client_secret_post"],
            })
        elif self.path == "/keys":
            keys = [key.as_dict(private=False) for key in [*KEYS.values(), ENCRYPTION]]
            self.answer({"keys": [*keys, {"kty": "unknown", "kid": "new"}]})
        else:
            self.answer({}, 404)

    def do_POST(self):
        form = parse_qs(self.rfile.read(int(self.headers["content-length"])).decode())
        given = {name: values[0] for name, values in form.items()}
        case, nonce = given["code"].split(".")
        if given.get("client_secret") != "s p+c/ial" or len(given.get("code_verifier", "")) != 43:
            self.answer({"error": "invalid_client"}, 401)
        elif case == "refused":
            self.answer({"error": "invalid_grant", "error_description": "the code is <b>unknown</b>"}, 400)
        elif case == "broken":
            self.answer({}, 500)
        elif case == "text":
            self.answer(b"<html>", 200)
        elif case == "large":
            self.answer({"id_token": "a" * 2_000_000})
        elif case == "missing":
            self.answer({"access_token": "a"})
        else:
            self.answer({"id_token": self.token(case, nonce)})

    def token(self, case, nonce):
        now = int(time.time())
        claims = {
            "iss": f"http://127.0.0.1:{self.server.server_port}",
            "aud": "tuner",
            "sub": "1",
            "exp": now + 300,
            "iat": now,
            "nonce": nonce,
            "email": "ada@example.com",
            "email_verified": True,
            "realm_access": {"roles": ["research"]},
        }
        claims.update({
            "audience": {"aud": "another"},
            "audiences": {"aud": ["tuner", "another"]},
            "party": {"aud": ["tuner"], "azp": "another"},
            "expired": {"exp": now - 90},
            "skew": {"exp": now - 30, "iat": now + 30, "nbf": now + 30},
            "future": {"iat": now + 90},
            "early": {"nbf": now + 90},
            "issuer": {"iss": "https://another.example.com"},
            "issuers": {"iss": [claims["iss"], "https://another.example.com"]},
            "nonce": {"nonce": "another"},
            "unverified": {"email_verified": "true"},
            "nameless": {"email": None},
            "spaces": {"email": "ada lovelace"},
            "groupless": {"realm_access": {"roles": ["other"]}},
            "exptext": {"exp": "soon"},
        }.get(case, {}))
        if case == "unsigned":
            return f"{encoded({'alg': 'none'})}.{encoded(claims)}."
        if case == "secret":
            # The public key as the secret of a symmetric algorithm.
            head = f"{encoded({'alg': 'HS256', 'kid': 'rsa'})}.{encoded(claims)}"
            code = hmac.digest(KEYS["RS256"].as_pem(private=False), head.encode(), "sha256")
            return f"{head}.{base64.urlsafe_b64encode(code).rstrip(b'=').decode()}"
        if case == "rotated":
            KEYS["RS256"] = RSAKey.generate_key(2048, {"kid": f"rsa-{now}", "use": "sig"})
        algorithm = case if case in KEYS else "RS256"
        key = {"stranger": STRANGER, "encryption": DECRYPTION}.get(case, KEYS[algorithm])
        header = {"alg": algorithm, "kid": "unknown" if case == "unknown" else key.kid}
        if case == "anonymous":
            header = {"alg": "ES256"}
            key = KEYS["ES256"]
        token = jwt.encode(header, claims, key, algorithms=[header["alg"]])
        if case == "changed":
            head, _, signature = token.split(".")
            return f"{head}.{encoded({**claims, 'email': 'root@example.com'})}.{signature}"
        return token


server = ThreadingHTTPServer(("127.0.0.1", 0), Provider)
threading.Thread(target=server.serve_forever, daemon=True).start()
print(f"http://127.0.0.1:{server.server_port}", flush=True)
sys.stdin.read()
