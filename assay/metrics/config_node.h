// A strict view of a small YAML document: every wrong key, type or number is
// an error that names the file and the line.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace assay {

// A scalar or a mapping (sequences are refused: no standard needs one).
// Errors are Error{kUsage}: "standards/x.yaml:12: unknown key 'rotl', expected
// one of ...".
class ConfigNode {
 public:
  // `origin` names the text in messages: a path, or "standard 'assay'".
  // Refuses aliases, duplicate keys, more than one document, deep nesting.
  static ConfigNode parse(const std::string& text, const std::string& origin);

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

  double number_or(std::string_view key, double absent) const;

  // Throws Error{kUsage} with the place of this node.
  [[noreturn]] void fail(const std::string& message) const;

 private:
  friend struct ConfigBuilder;
  bool is_map_ = false;
  int line_ = 0;  // counted from 1
  std::string origin_;
  std::string scalar_;
  std::vector<std::pair<std::string, ConfigNode>> entries_;
};

}  // namespace assay
