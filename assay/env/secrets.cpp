#include "assay/env/secrets.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <vector>

#include "assay/base/hash.h"
#include "assay/env/secret_text.h"

namespace assay::env {
namespace {

constexpr std::string_view kMark = "#secret:";
constexpr std::size_t kMarkDigits = 6;

// Anywhere in a word: PGPASSWORD, awsSecretAccessKey.
constexpr std::array<std::string_view, 12> kSecretParts = {
    "password",  "passwd",     "passphrase", "secret",
    "apikey",    "accesskey",  "privatekey", "accountkey",
    "authtoken", "credential", "sshkey",     "authorization"};
// Before "key": words that make it one, wherever the two stand.
constexpr std::array<std::string_view, 6> kBeforeKey = {
    "api", "access", "private", "auth", "account", "ssh"};

bool is_alnum(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0;
}

std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out)
    c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return out;
}

std::vector<std::string> words_of(std::string_view key) {
  std::vector<std::string> words;
  for (std::size_t at = 0; at < key.size();) {
    std::size_t end = at;
    while (end < key.size() && is_alnum(key[end])) ++end;
    if (end > at) words.push_back(lower(key.substr(at, end - at)));
    at = end + 1;
  }
  return words;
}

bool has_secret_part(std::string_view word) {
  return std::any_of(
      kSecretParts.begin(), kSecretParts.end(),
      [&](std::string_view part) { return word.find(part) != word.npos; });
}

// Names like these are of settings too: of those, the plain ones are shown.
bool is_weak(const std::vector<std::string>& words) {
  return words.back() != "pwd" &&
         std::none_of(words.begin(), words.end(), has_secret_part);
}

}  // namespace

bool is_mark(std::string_view value) {
  return value.size() == kMark.size() + kMarkDigits &&
         value.starts_with(kMark) &&
         value.find_first_not_of("0123456789abcdef", kMark.size()) ==
             value.npos;
}

namespace {

// Numbers, words like true, and "<pad>": settings, whatever they are called.
bool is_plain_setting(std::string_view value) {
  if (value.empty() || value.front() == '<' || value.front() == '[')
    return true;
  const std::string word = lower(value);
  if (word == "true" || word == "false" || word == "none" || word == "null")
    return true;
  return value.size() <= 6 &&
         value.find_first_not_of("0123456789.-") == value.npos;
}

}  // namespace

std::string secret_mark(std::string_view secret) {
  return std::string(kMark) +
         to_hex(hash128(secret, /*seed=*/0x5ec2e7)).substr(0, kMarkDigits);
}

bool names_a_secret(std::string_view key) {
  const std::vector<std::string> words = words_of(key);
  if (words.empty()) return false;
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (has_secret_part(words[i])) return true;
    if (i > 0 && words[i] == "key" &&
        std::find(kBeforeKey.begin(), kBeforeKey.end(), words[i - 1]) !=
            kBeforeKey.end())
      return true;
  }
  const std::string& last = words.back();
  return last.ends_with("token") || last == "key" || last == "pwd" ||
         last == "pass";
}

bool is_secret(std::string_view key, std::string_view value) {
  if (!names_a_secret(key) || value.empty() || is_mark(value)) return false;
  return !(is_weak(words_of(key)) && is_plain_setting(value));
}

std::string without_secrets(std::string_view key, std::string_view value) {
  // The shell's own working directory.
  const bool directory = key == "PWD" || key == "OLDPWD";
  if (!directory && is_secret(key, value)) return secret_mark(value);
  return text_without_secrets(value);
}

void hide_secrets(Snapshot& snapshot) {
  for (SectionFacts& section : snapshot.sections) {
    for (auto& [key, value] : section.values) {
      if (value.kind == Kind::kBool || value.kind == Kind::kNull) continue;
      std::string shown = without_secrets(key, value.text);
      if (shown == value.text) continue;
      value.text = std::move(shown);
      if (value.kind == Kind::kNumber) value.kind = Kind::kText;
    }
    for (std::string& line : section.missing) line = without_secrets("", line);
  }
  for (Draw& draw : snapshot.draws)
    draw.arguments = without_secrets("", draw.arguments);
}

}  // namespace assay::env
