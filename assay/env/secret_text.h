// Secrets inside of a text, found by what stands around them or by their look.
#pragma once

#include <string>
#include <string_view>

namespace assay::env {

// The text with a mark (secret_mark()) for each secret in it: credentials in
// URLs, "password = ...", "--api-key ...", "Bearer ...", private keys in PEM
// and the tokens of well-known services. Twice is as once.
std::string text_without_secrets(std::string_view text);

}  // namespace assay::env
