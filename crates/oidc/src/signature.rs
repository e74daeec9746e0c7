//! Verification of signatures with ring.

use std::sync::Once;

use jsonwebtoken::crypto::{CryptoProvider, JwtSigner, JwtVerifier, KeyUtils};
use jsonwebtoken::errors::{Error, ErrorKind};
use jsonwebtoken::signature::{self, Verifier};
use jsonwebtoken::{Algorithm, DecodingKey, DecodingKeyKind, EncodingKey};
use ring::signature as ring_signature;
use ring::signature::{RsaParameters, RsaPublicKeyComponents, UnparsedPublicKey, VerificationAlgorithm};

/// Algorithms whose keys are public.
pub(crate) const ALGORITHMS: [Algorithm; 9] = [
    Algorithm::RS256,
    Algorithm::RS384,
    Algorithm::RS512,
    Algorithm::PS256,
    Algorithm::PS384,
    Algorithm::PS512,
    Algorithm::ES256,
    Algorithm::ES384,
    Algorithm::EdDSA,
];

static PROVIDER: CryptoProvider = CryptoProvider {
    signer_factory: refuse_to_sign,
    verifier_factory: verifier,
    key_utils: KeyUtils {
        rsa_pub_components_from_private_key: |_| unsupported(),
        rsa_pub_components_from_public_key: |_| unsupported(),
        ec_pub_components_from_private_key: |_, _| unsupported(),
        ed_pub_components_from_private_key: |_, _| unsupported(),
        compute_digest: |_, _| unsupported(),
    },
};

/// Makes ring the provider of this process.
pub(crate) fn install() {
    static INSTALLED: Once = Once::new();
    // An error means that another provider is installed.
    INSTALLED.call_once(|| {
        let _ = PROVIDER.install_default();
    });
}

fn unsupported<T>() -> Result<T, Error> {
    Err(ErrorKind::UnsupportedAlgorithm.into())
}

fn refuse_to_sign(_: &Algorithm, _: &EncodingKey) -> Result<Box<dyn JwtSigner>, Error> {
    unsupported()
}

fn verifier(algorithm: &Algorithm, key: &DecodingKey) -> Result<Box<dyn JwtVerifier>, Error> {
    let rsa = |parameters| -> Result<Box<dyn JwtVerifier>, Error> {
        let DecodingKeyKind::RsaModulusExponent { n, e } = key.kind() else { return unsupported() };
        let key = RsaPublicKeyComponents { n: n.clone(), e: e.clone() };
        Ok(Box::new(Rsa { algorithm: *algorithm, parameters, key }))
    };
    let point = |scheme: &'static dyn VerificationAlgorithm| -> Result<Box<dyn JwtVerifier>, Error> {
        let key = UnparsedPublicKey::new(scheme, key.try_get_as_bytes()?.to_vec());
        Ok(Box::new(Point { algorithm: *algorithm, key }))
    };
    match algorithm {
        Algorithm::RS256 => rsa(&ring_signature::RSA_PKCS1_2048_8192_SHA256),
        Algorithm::RS384 => rsa(&ring_signature::RSA_PKCS1_2048_8192_SHA384),
        Algorithm::RS512 => rsa(&ring_signature::RSA_PKCS1_2048_8192_SHA512),
        Algorithm::PS256 => rsa(&ring_signature::RSA_PSS_2048_8192_SHA256),
        Algorithm::PS384 => rsa(&ring_signature::RSA_PSS_2048_8192_SHA384),
        Algorithm::PS512 => rsa(&ring_signature::RSA_PSS_2048_8192_SHA512),
        Algorithm::ES256 => point(&ring_signature::ECDSA_P256_SHA256_FIXED),
        Algorithm::ES384 => point(&ring_signature::ECDSA_P384_SHA384_FIXED),
        Algorithm::EdDSA => point(&ring_signature::ED25519),
        _ => unsupported(),
    }
}

struct Rsa {
    algorithm: Algorithm,
    parameters: &'static RsaParameters,
    key: RsaPublicKeyComponents<Vec<u8>>,
}

impl Verifier<Vec<u8>> for Rsa {
    fn verify(&self, message: &[u8], given: &Vec<u8>) -> Result<(), signature::Error> {
        self.key.verify(self.parameters, message, given).map_err(|_| signature::Error::new())
    }
}

impl JwtVerifier for Rsa {
    fn algorithm(&self) -> Algorithm {
        self.algorithm
    }
}

/// Key on an elliptic curve.
struct Point {
    algorithm: Algorithm,
    key: UnparsedPublicKey<Vec<u8>>,
}

impl Verifier<Vec<u8>> for Point {
    fn verify(&self, message: &[u8], given: &Vec<u8>) -> Result<(), signature::Error> {
        self.key.verify(message, given).map_err(|_| signature::Error::new())
    }
}

impl JwtVerifier for Point {
    fn algorithm(&self) -> Algorithm {
        self.algorithm
    }
}
