// A strict view of a small YAML document: every wrong key, type or number is
// an error that names the file and the line.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace assay {

// A scalar, a mapping or a list. Errors are Error{kUsage}: "standards/
// x.yaml:12: unknown key 'rotl', expected one of ...".
class ConfigNode {
 public:
  // `origin` names the text in messages: a path, or "standard 'assay'".
  // Refuses aliases, duplicate keys, empty values, more than one document,
  // deep nesting. The document is a mapping.
  static ConfigNode parse(const std::string& text, const std::string& origin);

  bool is_map() const { return kind_ == Kind::kMap; }
  bool is_list() const { return kind_ == Kind::kList; }
  bool is_scalar() const { return kind_ == Kind::kScalar; }
  // '1' and "1" as against 1: a quoted scalar is text whatever it looks like.
  bool is_quoted() const { return quoted_; }

  // Throws unless this is a mapping with no other keys than these.
  void allow_only(const std::vector<std::string_view>& keys) const;

  const ConfigNode* find(std::string_view key) const;  // null when absent
  const ConfigNode& at(std::string_view key) const;    // throws when absent

  std::string text() const;  // non-empty scalar
  bool boolean() const;      // "true" or "false"
  // A finite number >= 0, as 0.01, 1e-5 or 2^-9.
  double number() const;
  // The one of `words` that the scalar is; its index.
  std::size_t one_of(std::initializer_list<std::string_view> words) const;

  // Of a mapping, in the order of the file.
  const std::vector<std::pair<std::string, ConfigNode>>& entries() const;
  // Of a list, in the order of the file.
  const std::vector<ConfigNode>& items() const;

  double number_or(std::string_view key, double absent) const;

  // The same document on one line, for parse().
  std::string to_yaml() const;

  int line() const { return line_; }  // counted from 1
  std::string place() const;          // "standards/x.yaml:12"
  // Throws Error{kUsage} with the place of this node.
  [[noreturn]] void fail(const std::string& message) const;

 private:
  friend class ConfigBuilder;
  enum class Kind { kScalar, kMap, kList };
  Kind kind_ = Kind::kScalar;
  bool quoted_ = false;
  int line_ = 0;
  std::string origin_;
  std::string scalar_;
  std::vector<std::pair<std::string, ConfigNode>> entries_;
  std::vector<ConfigNode> items_;
};

}  // namespace assay
