// Passwords, tokens and keys never reach a file: a mark takes their place.
#pragma once

#include <string>
#include <string_view>

#include "assay/env/snapshot.h"

namespace assay::env {

// "#secret:3f2a91": 24 bits of a hash. Two sides that have the same secret have
// the same mark, and too little of it is there to find the secret by.
std::string secret_mark(std::string_view secret);

bool is_mark(std::string_view value);

// Whether a value of this name is a secret whatever it looks like: PASSWORD,
// SECRET, CREDENTIAL ... are somewhere in it, or its last word (between '_',
// '-', '.') ends with TOKEN, or is KEY, PASS, PWD. Settings of models are none:
// num_key_value_heads, eos_token_id.
bool names_a_secret(std::string_view key);

// The same, but that what is a setting by its look ("<pad>", a short number) is
// none under a name that may be of a setting: pad_token.
bool is_secret(std::string_view key, std::string_view value);

// `value` of the variable or option `key` as it may be written. Besides what
// names_a_secret(key) says: credentials and signatures in URLs, "password=..."
// inside of a text, and what looks like the tokens of well-known services.
std::string without_secrets(std::string_view key, std::string_view value);

// Everywhere in a snapshot. Twice is as once.
void hide_secrets(Snapshot& snapshot);

}  // namespace assay::env
