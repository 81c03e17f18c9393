#include "assay/env/secrets.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <vector>

#include "assay/base/hash.h"

namespace assay::env {
namespace {

constexpr std::string_view kMark = "#secret:";
constexpr std::size_t kMarkDigits = 6;

constexpr std::array<std::string_view, 13> kSecretWords = {
    "password",   "passwd",      "passphrase", "secret",    "secrets",
    "credential", "credentials", "apikey",     "accesskey", "secretkey",
    "privatekey", "authtoken",   "accesstoken"};
// Before "key": words that make it one, wherever the two stand.
constexpr std::array<std::string_view, 6> kBeforeKey = {
    "api", "access", "private", "auth", "account", "ssh"};

// What tokens of well-known services begin with, and their least length.
struct Prefix {
  std::string_view text;
  std::size_t least;
};
constexpr std::array<Prefix, 12> kPrefixes = {{{"hf_", 20},
                                               {"ghp_", 20},
                                               {"gho_", 20},
                                               {"ghs_", 20},
                                               {"github_pat_", 20},
                                               {"glpat-", 16},
                                               {"sk-", 20},
                                               {"xoxb-", 16},
                                               {"xoxp-", 16},
                                               {"AKIA", 20},
                                               {"eyJ", 40},
                                               {"-----BEGIN", 10}}};

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

template <std::size_t n>
bool contains(const std::array<std::string_view, n>& all,
              std::string_view word) {
  return std::find(all.begin(), all.end(), word) != all.end();
}

bool is_mark(std::string_view value) {
  return value.size() == kMark.size() + kMarkDigits &&
         value.starts_with(kMark) &&
         value.find_first_not_of("0123456789abcdef", kMark.size()) ==
             value.npos;
}

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

bool looks_like_a_token(std::string_view value) {
  return std::any_of(kPrefixes.begin(), kPrefixes.end(), [&](const Prefix& p) {
    return value.size() >= p.least && value.starts_with(p.text);
  });
}

// Ends of a value inside of a text.
bool ends_a_value(char c) {
  return c == '&' || c == ';' || c == ',' || c == '"' || c == '\'' ||
         c == '}' || c == ')' || std::isspace(static_cast<unsigned char>(c));
}

// A password in a URL may have '&', ';' or '#' in it.
bool ends_an_authority(char c) {
  return c == '/' || c == '"' || c == '\'' ||
         std::isspace(static_cast<unsigned char>(c));
}

// scheme://user:password@host, and scheme://token@host.
void hide_in_urls(std::string& text) {
  constexpr std::string_view kScheme = "://";
  for (std::size_t at = text.find(kScheme); at != text.npos;
       at = text.find(kScheme, at)) {
    at += kScheme.size();
    std::size_t end = at;
    while (end < text.size() && !ends_an_authority(text[end])) ++end;
    const std::size_t sign = text.rfind('@', end == 0 ? 0 : end - 1);
    if (sign == text.npos || sign < at || sign >= end) continue;
    const std::string_view user(text.data() + at, sign - at);
    if (is_mark(user)) continue;
    text.replace(at, sign - at, secret_mark(user));
  }
}

// name=value, name: value, "name": "value" inside of a text.
void hide_assignments(std::string& text) {
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (text[at] != '=' && text[at] != ':') continue;
    std::size_t name = at;
    while (name > 0 && (text[name - 1] == '"' || text[name - 1] == '\''))
      --name;
    std::size_t begin = name;
    while (begin > 0 && (is_alnum(text[begin - 1]) || text[begin - 1] == '_' ||
                         text[begin - 1] == '-'))
      --begin;
    const std::string_view key(text.data() + begin, name - begin);
    const bool signature = key == "sig" || key == "Signature" ||
                           key == "signature" || key == "X-Amz-Signature";
    if (key.empty() || !(signature || names_a_secret(key))) continue;
    std::size_t from = at + 1;
    while (from < text.size() &&
           (text[from] == ' ' || text[from] == '"' || text[from] == '\''))
      ++from;
    std::size_t end = from;
    const auto mark_at = [&](std::size_t place) {
      return is_mark(
          std::string_view(text).substr(place, kMark.size() + kMarkDigits));
    };
    if (mark_at(from) || (begin > 0 && mark_at(begin - 1))) continue;
    while (end < text.size() && !ends_a_value(text[end])) ++end;
    const std::string_view value(text.data() + from, end - from);
    if (value.empty() || is_plain_setting(value)) continue;
    text.replace(from, end - from, secret_mark(value));
  }
}

// Words of the text that are tokens by their look.
void hide_tokens(std::string& text) {
  for (std::size_t at = 0; at < text.size();) {
    std::size_t end = at;
    while (end < text.size() && !ends_a_value(text[end]) && text[end] != '=' &&
           text[end] != ':' && text[end] != '/')
      ++end;
    const std::string_view word(text.data() + at, end - at);
    if (looks_like_a_token(word)) {
      const std::string mark = secret_mark(word);
      text.replace(at, end - at, mark);
      end = at + mark.size();
    }
    at = end + 1;
  }
}

}  // namespace

std::string secret_mark(std::string_view secret) {
  return std::string(kMark) +
         to_hex(hash128(secret, /*seed=*/0x5ec2e7)).substr(0, kMarkDigits);
}

bool names_a_secret(std::string_view key) {
  const std::vector<std::string> words = words_of(key);
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (contains(kSecretWords, words[i])) return true;
    if (i > 0 && words[i] == "key" && contains(kBeforeKey, words[i - 1]))
      return true;
  }
  return !words.empty() && (words.back() == "token" || words.back() == "key" ||
                            words.back() == "pwd");
}

std::string without_secrets(std::string_view key, std::string_view value) {
  // The shell's own working directory.
  const bool directory = key == "PWD" || key == "OLDPWD";
  if (names_a_secret(key) && !directory && !is_mark(value)) {
    const std::vector<std::string> words = words_of(key);
    const bool weak = words.back() == "token" || words.back() == "key";
    if (!value.empty() && !(weak && is_plain_setting(value)))
      return secret_mark(value);
  }
  if (value.starts_with("-----BEGIN")) return secret_mark(value);
  std::string text(value);
  hide_in_urls(text);
  hide_assignments(text);
  hide_tokens(text);
  return text;
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
