"""Runs the OpenID Connect provider of the package oidc-provider-mock. Prints its address, and ends with its input."""

import sys

import httpx
import oidc_provider_mock

USERS = {
    "ada": {"email": "ada@example.com", "email_verified": True, "groups": ["research", "other"]},
    "eve": {"email": "eve@example.com", "email_verified": True, "groups": ["other"]},
    "mallory": {"email": "ada@example.com", "email_verified": False, "groups": ["research"]},
}

with oidc_provider_mock.run_server_in_thread() as server:
    issuer = f"http://localhost:{server.server_port}"
    for subject, claims in USERS.items():
        httpx.put(f"{issuer}/users/{subject}", json=claims).raise_for_status()
    print(issuer, flush=True)
    sys.stdin.read()
