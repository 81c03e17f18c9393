#include "assay/env/secret_text.h"

#include <algorithm>
#include <array>
#include <cctype>

#include "assay/base/text.h"
#include "assay/env/secrets.h"

namespace assay::env {
namespace {

constexpr std::size_t kMarkSize = 14;  // "#secret:3f2a91"

// What tokens of well-known services begin with, and their least length.
struct Prefix {
  std::string_view text;
  std::size_t least;
};
constexpr std::array<Prefix, 22> kPrefixes = {
    {{"hf_", 20},         {"ghp_", 20},     {"gho_", 20},   {"ghs_", 20},
     {"ghu_", 20},        {"ghr_", 20},     {"glpat-", 16}, {"sk-", 20},
     {"github_pat_", 20}, {"sk_live_", 20}, {"npm_", 20},   {"pypi-", 20},
     {"dckr_pat_", 20},   {"nvapi-", 20},   {"AIza", 30},   {"ya29.", 20},
     {"xoxb-", 16},       {"xoxp-", 16},    {"xapp-", 16},  {"AKIA", 20},
     {"ASIA", 20},        {"eyJ", 40}}};

bool is_alnum(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0;
}
bool is_space(char c) {
  return std::isspace(static_cast<unsigned char>(c)) != 0;
}
bool is_quote(char c) { return c == '"' || c == '\''; }
bool is_name(char c) { return is_alnum(c) || c == '_' || c == '-' || c == '.'; }

bool mark_at(std::string_view text, std::size_t at) {
  return at <= text.size() && is_mark(text.substr(at, kMarkSize));
}

// Puts a mark where [begin, end) was; the place behind it.
std::size_t hide(std::string& text, std::size_t begin, std::size_t end) {
  const std::string mark =
      secret_mark(std::string_view(text).substr(begin, end - begin));
  text.replace(begin, end - begin, mark);
  return begin + mark.size();
}

std::size_t skip_spaces(std::string_view text, std::size_t at) {
  while (at < text.size() && (text[at] == ' ' || text[at] == '\t')) ++at;
  return at;
}

std::size_t word_end(std::string_view text, std::size_t at) {
  while (at < text.size() && !is_space(text[at]) && !is_quote(text[at])) ++at;
  return at;
}

// Whether a separator in a value without quotes ends it: another name or
// nothing follows. Passwords have such characters too.
bool separates(std::string_view text, std::size_t at) {
  if (std::string_view("&;,)}]").find(text[at]) == std::string_view::npos)
    return false;
  at = skip_spaces(text, at + 1);
  if (at == text.size() || is_quote(text[at]) || is_space(text[at]) ||
      std::string_view("&;,)}]").find(text[at]) != std::string_view::npos)
    return true;
  std::size_t end = at;
  while (end < text.size() && is_name(text[end])) ++end;
  end = skip_spaces(text, end);
  return end < text.size() && (text[end] == '=' || text[end] == ':');
}

// Of the value at `at`, behind its quote where it has one.
struct Span {
  std::size_t begin, end;
};

Span value_at(std::string_view text, std::size_t at) {
  if (at >= text.size()) return {at, at};
  if (is_quote(text[at])) {
    std::size_t end = at + 1;
    while (end < text.size() && text[end] != text[at])
      end += text[end] == '\\' ? 2 : 1;
    return {at + 1, std::min(end, text.size())};
  }
  std::size_t end = at;
  while (end < text.size() && !is_space(text[end]) && !is_quote(text[end]) &&
         !separates(text, end))
    ++end;
  return {at, end};
}

// From -----BEGIN to the end of the line -----END.
void hide_private_keys(std::string& text) {
  for (std::size_t at = text.find("-----BEGIN"); at != text.npos;
       at = text.find("-----BEGIN", at)) {
    std::size_t end = text.find("-----END", at);
    if (end != text.npos) end = text.find("-----", end + 8);
    end = end == text.npos ? text.size() : end + 5;
    at = hide(text, at, end);
  }
}

// Where "user:password@" ends that begins at `at`; npos without one.
std::size_t authority_sign(std::string_view text, std::size_t at) {
  const std::size_t whole = word_end(text, at);
  std::size_t end = std::min(text.find('/', at), whole);
  const std::string_view first = text.substr(at, end - at);
  // A '/' in a password, which is no port.
  const std::size_t colon = first.find(':');
  if (first.find('@') == first.npos && colon != first.npos &&
      first.find_first_not_of("0123456789", colon + 1) != first.npos)
    end = whole;
  const std::size_t sign = text.substr(0, end).rfind('@');
  return sign != text.npos && sign >= at ? sign : text.npos;
}

// scheme://user:password@host, and scheme://token@host.
void hide_in_urls(std::string& text) {
  constexpr std::string_view kScheme = "://";
  for (std::size_t at = text.find(kScheme); at != text.npos;
       at = text.find(kScheme, at)) {
    at += kScheme.size();
    const std::size_t sign = authority_sign(text, at);
    if (sign == text.npos ||
        is_mark(std::string_view(text).substr(at, sign - at)))
      continue;
    at = hide(text, at, sign);
  }
}

bool is_signature(std::string_view key) {
  return iequals(key, "sig") || iequals(key, "signature") ||
         iequals(key, "X-Amz-Signature");
}

// name=value, name: value, "name": "value".
void hide_assignments(std::string& text) {
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (text[at] != '=' && text[at] != ':') continue;
    std::size_t name = at;
    while (name > 0 && (text[name - 1] == ' ' || text[name - 1] == '\t'))
      --name;
    while (name > 0 && is_quote(text[name - 1])) --name;
    std::size_t begin = name;
    while (begin > 0 && is_name(text[begin - 1])) --begin;
    if (begin > 0 && mark_at(text, begin - 1)) continue;
    const std::string key = text.substr(begin, name - begin);
    const auto [from, end] = value_at(text, skip_spaces(text, at + 1));
    if (key.empty() || from >= end || mark_at(text, from)) continue;
    const std::string_view value(text.data() + from, end - from);
    if (is_signature(key) || is_secret(key, value))
      at = hide(text, from, end) - 1;
  }
}

// --name value, and -u user:password of curl and its kind.
void hide_options(std::string& text) {
  for (std::size_t at = 0; at < text.size(); ++at) {
    const bool begins = at == 0 || is_space(text[at - 1]) ||
                        is_quote(text[at - 1]) || text[at - 1] == '[';
    if (!begins || text[at] != '-') continue;
    std::size_t end = at;
    while (end < text.size() && is_name(text[end])) ++end;
    const std::string key = text.substr(at, end - at);
    const std::size_t next = skip_spaces(text, end);
    if (next == end || next >= text.size() || text[next] == '-') continue;
    const auto [from, until] = value_at(text, next);
    const std::string_view value(text.data() + from, until - from);
    const bool user =
        (key == "-u" || key == "--user") && value.find(':') != value.npos;
    if (from >= until || mark_at(text, from)) continue;
    if (user || is_secret(key, value)) at = hide(text, from, until) - 1;
  }
}

// "Bearer x", "Authorization: Basic x".
void hide_after_schemes(std::string& text) {
  for (std::size_t at = 0; at + 6 < text.size(); ++at) {
    if (at > 0 && is_alnum(text[at - 1])) continue;
    const std::string_view rest = std::string_view(text).substr(at);
    std::size_t from = 0;
    if (iequals(rest.substr(0, 7), "bearer ")) from = at + 7;
    if (iequals(rest.substr(0, 13), "authorization")) {
      const std::size_t blank = text.find_first_of(":=", at);
      if (blank == text.npos) continue;
      from = skip_spaces(text, blank + 1);
      const std::size_t scheme = word_end(text, from);
      if (scheme < text.size() && text[scheme] == ' ') from = scheme + 1;
    }
    if (from == 0) continue;
    from = skip_spaces(text, from);
    const std::size_t end = word_end(text, from);
    if (end > from && !mark_at(text, from)) at = hide(text, from, end) - 1;
  }
}

// Words that are tokens by their look.
void hide_tokens(std::string& text) {
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (at > 0 && (is_alnum(text[at - 1]) || text[at - 1] == '_')) continue;
    std::size_t end = at;
    while (end < text.size() && is_name(text[end])) ++end;
    const std::string_view word(text.data() + at, end - at);
    const bool token = std::any_of(
        kPrefixes.begin(), kPrefixes.end(), [&](const Prefix& prefix) {
          return word.size() >= prefix.least && word.starts_with(prefix.text);
        });
    // "sk-learn-..." is a name of others.
    const bool name = word.starts_with("sk-") &&
                      word.find_first_of("0123456789") == word.npos;
    if (token && !name) at = hide(text, at, end) - 1;
  }
}

}  // namespace

std::string text_without_secrets(std::string_view given) {
  std::string text(given);
  hide_private_keys(text);
  hide_in_urls(text);
  hide_after_schemes(text);
  hide_options(text);
  hide_assignments(text);
  hide_tokens(text);
  return text;
}

}  // namespace assay::env
