// Reads the YAML of a spec.
#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "assay/base/text.h"
#include "assay/conform/spec.h"
#include "assay/conform/spec_yaml.h"
#include "assay/conform/values.h"
#include "assay/core/dtype.h"
#include "assay/metrics/config_node.h"

namespace assay::conform {
namespace {

class SpecReader {
 public:
  SpecReader(const ConfigNode& root, const std::string& path) : root_(root) {
    spec_.path = path;
  }

  Spec read() {
    root_.allow_only({"module", "summary", "api", "seed", "parameters",
                      "constraints", "inputs", "outputs", "steps", "contract",
                      "standard", "deterministic", "pinned", "invalid"});
    read_heading();
    read_parameters();
    for (const ConfigNode& item : list("constraints"))
      spec_.constraints.push_back(expression(item));
    for (const auto& [name, node] : map("inputs")) read_input(name, node);
    for (const auto& [name, node] : map("outputs")) read_output(name, node);
    if (spec_.outputs.empty())
      root_.fail("expected at least one output under 'outputs'");
    read_steps();
    if (const ConfigNode* node = section("contract"))
      spec_.contract = texts(*node);
    read_standard();
    if (const ConfigNode* node = section("deterministic"))
      spec_.deterministic = node->boolean();
    read_pinned();
    for (const auto& [name, node] : map("invalid")) read_invalid(name, node);
    return std::move(spec_);
  }

 private:
  const ConfigNode* section(const std::string& name) {
    const ConfigNode* node = root_.find(name);
    if (node) spec_.lines[name] = node->line();
    return node;
  }
  const std::vector<ConfigNode>& list(const std::string& name) {
    static const std::vector<ConfigNode> kNone;
    const ConfigNode* node = section(name);
    return node ? node->items() : kNone;
  }
  const std::vector<std::pair<std::string, ConfigNode>>& map(
      const std::string& name) {
    static const std::vector<std::pair<std::string, ConfigNode>> kNone;
    const ConfigNode* node = section(name);
    return node ? node->entries() : kNone;
  }

  const Parameter* find_parameter(std::string_view name) const {
    for (const Parameter& known : spec_.parameters)
      if (known.name == name) return &known;
    return nullptr;
  }
  [[noreturn]] void no_parameter(const ConfigNode& node,
                                 const std::string& name) const {
    std::vector<std::string> names;
    for (const Parameter& known : spec_.parameters) names.push_back(known.name);
    const std::string near = closest(name, names);
    node.fail(
        fmt::format("no parameter '{}'{}", printable(name),
                    near.empty() ? "" : ", did you mean '" + near + "'?"));
  }

  Expression expression(const ConfigNode& node) const {
    return expression(node, node.text());
  }
  Expression expression(const ConfigNode& node, std::string text) const {
    refuse_gap(node, text);
    Expression made = Expression::parse(std::move(text), node.place());
    for (const std::string& name : made.names())
      if (!find_parameter(name)) no_parameter(node, name);
    return made;
  }
  // A word that is no parameter's name stands for itself where it is one of
  // what is expected here.
  template <typename IsWord>
  Expression word_or_expression(const ConfigNode& node, IsWord is_word) const {
    const std::string text = node.text();
    if (!find_parameter(text) && is_word(text))
      return Expression::parse("'" + text + "'", node.place());
    return expression(node);
  }
  Expression dtype(const ConfigNode& node) const {
    return word_or_expression(node, [](const std::string& text) {
      return is_identifier(text) && parse_dtype(text).has_value();
    });
  }
  std::vector<Expression> shape(const ConfigNode& node) const {
    std::vector<Expression> dimensions;
    for (const ConfigNode& item : node.items())
      dimensions.push_back(expression(item));
    return dimensions;
  }
  std::optional<Expression> optional(const ConfigNode& node,
                                     const char* key) const {
    const ConfigNode* found = node.find(key);
    if (!found) return std::nullopt;
    return expression(*found);
  }

  void read_heading() {
    const ConfigNode& module = root_.at("module");
    spec_.module = module.text();
    if (!is_identifier(spec_.module))
      module.fail(fmt::format("module '{}': expected letters, digits and _",
                              printable(spec_.module)));
    section("module");
    if (const ConfigNode* node = section("summary")) {
      spec_.summary = node->text();
      refuse_gap(*node, spec_.summary);
    }
    if (const ConfigNode* node = section("api")) {
      spec_.api = texts(*node);
      for (std::size_t i = 0; i < spec_.api.size(); ++i)
        spec_.lines[fmt::format("api.{}", i)] = node->items()[i].line();
    }
    if (const ConfigNode* node = section("seed"))
      spec_.seed = static_cast<std::uint64_t>(integer_of(*node, 0));
  }

  void read_parameters() {
    for (const auto& [name, node] : map("parameters")) {
      if (!is_identifier(name))
        node.fail(fmt::format("parameter '{}': expected letters, digits and _",
                              printable(name)));
      spec_.lines["parameters." + name] = node.line();
      spec_.parameters.push_back(parameter(name, node));
    }
  }

  void need_name(const ConfigNode& node, const std::string& name) const {
    if (!is_dotted_name(name))
      node.fail(fmt::format("name '{}': expected letters, digits, _ and .",
                            printable(name)));
  }

  void read_input(const std::string& name, const ConfigNode& node) {
    need_name(node, name);
    node.allow_only({"shape", "dtype", "values", "when", "strided"});
    spec_.lines["inputs." + name] = node.line();
    Input input;
    input.name = name;
    input.shape = shape(node.at("shape"));
    input.dtype = dtype(node.at("dtype"));
    input.values = values(node.at("values"));
    input.when = optional(node, "when");
    input.strided = optional(node, "strided");
    spec_.inputs.push_back(std::move(input));
  }

  Values values(const ConfigNode& node) const {
    Values made;
    const ConfigNode& kind = node.is_map() ? node.at("kind") : node;
    made.kind = word_or_expression(kind, [](const std::string& text) {
      return find_value_kind(text) != nullptr;
    });
    if (!node.is_map()) return made;
    const std::vector<std::string_view> known = known_options(kind.text());
    for (const auto& [name, option] : node.entries()) {
      if (name == "kind") continue;
      if (!std::count(known.begin(), known.end(), name))
        option.fail(fmt::format(
            "no option '{}' of values '{}'{}", printable(name),
            printable(kind.text()),
            find_parameter(kind.text()) && find_value_kind(kind.text())
                ? " (here the name of a parameter; the kind is \"'" +
                      kind.text() + "'\")"
                : ""));
      made.options[name] =
          word_or_expression(option, [](const std::string& text) {
            return is_identifier(text) && parse_dtype(text).has_value();
          });
    }
    return made;
  }
  // Of the one kind that is named, else of every kind that it may turn out
  // to be.
  std::vector<std::string_view> known_options(const std::string& kind) const {
    std::vector<std::string_view> known;
    const Parameter* chosen = find_parameter(kind);
    for (const ValueKind& candidate : value_kinds()) {
      const Value name = candidate.name;
      const bool possible =
          chosen
              ? std::count(chosen->small.begin(), chosen->small.end(), name) ||
                    std::count(chosen->real.begin(), chosen->real.end(), name)
              : !find_value_kind(kind) || candidate.name == kind;
      if (possible)
        known.insert(known.end(), candidate.options.begin(),
                     candidate.options.end());
    }
    return known;
  }

  void read_output(const std::string& name, const ConfigNode& node) {
    need_name(node, name);
    node.allow_only({"shape", "dtype", "when", "exact", "class", "standard",
                     "each_step", "merge"});
    spec_.lines["outputs." + name] = node.line();
    Output output;
    output.name = name;
    if (const ConfigNode* given = node.find("shape")) {
      output.has_shape = true;
      output.shape = shape(*given);
    }
    if (const ConfigNode* given = node.find("dtype"))
      output.dtype = dtype(*given);
    output.when = optional(node, "when");
    if (const ConfigNode* exact = node.find("exact"))
      output.exact_bytes = exact->boolean();
    if (const ConfigNode* op_class = node.find("class")) {
      refuse_gap(*op_class, op_class->text());
      op_class->one_of({"gemm", "reduction", "elementwise", "movement"});
      output.op_class = op_class->text();
    }
    if (const ConfigNode* standard = node.find("standard"))
      output.standard = standard_text(*standard);
    if (const ConfigNode* each = node.find("each_step"))
      output.each_step = each->boolean();
    if (const ConfigNode* given = node.find("merge"))
      output.merge = merge(*given);
    spec_.outputs.push_back(std::move(output));
  }

  static Merge merge(const ConfigNode& node) {
    if (!node.is_map()) {
      constexpr Merge::Kind kKinds[] = {Merge::Kind::kEach, Merge::Kind::kSame,
                                        Merge::Kind::kSum};
      return {kKinds[node.one_of({"each", "same", "sum"})]};
    }
    node.allow_only({"concatenate"});
    const std::int64_t dimension = integer_of(node.at("concatenate"), 0);
    if (dimension > 8) node.fail("expected a dimension");
    return {Merge::Kind::kConcatenate, static_cast<int>(dimension)};
  }

  // Its name, or the text of a whole standard, which is a mapping.
  static std::string standard_text(const ConfigNode& node) {
    return node.is_map() ? node.to_yaml() : node.text();
  }

  void read_standard() {
    const ConfigNode* node = section("standard");
    if (!node) {
      spec_.standard.push_back({std::nullopt, "assay"});
    } else if (!node->is_list()) {
      spec_.standard.push_back({std::nullopt, standard_text(*node)});
    } else {
      for (const ConfigNode& rule : node->items()) {
        rule.allow_only({"when", "use"});
        spec_.standard.push_back(
            {optional(rule, "when"), standard_text(rule.at("use"))});
      }
      if (spec_.standard.empty() || spec_.standard.back().when)
        node->fail("the last rule needs no 'when': it is for all other cases");
    }
  }

  void read_steps() {
    const ConfigNode* node = section("steps");
    if (!node) return;
    const auto steps = [](const ConfigNode& count) {
      const std::int64_t value = integer_of(count, 1);
      if (value > 1000) count.fail("expected at most 1000 steps");
      return static_cast<int>(value);
    };
    if (node->is_map()) {
      node->allow_only({"small", "real"});
      spec_.small_steps = steps(node->at("small"));
      spec_.real_steps = steps(node->at("real"));
    } else {
      spec_.small_steps = spec_.real_steps = steps(*node);
    }
  }

  Parameters some_parameters(const ConfigNode& node) const {
    Parameters parameters;
    for (const auto& [name, value] : node.entries()) {
      if (!find_parameter(name)) no_parameter(value, name);
      parameters[name] = value_of(value);
    }
    return parameters;
  }

  void read_pinned() {
    for (const ConfigNode& node : list("pinned")) {
      spec_.lines[fmt::format("pinned.{}", spec_.pinned.size())] = node.line();
      spec_.pinned.push_back(some_parameters(node));
    }
  }

  void read_invalid(const std::string& name, const ConfigNode& node) {
    refuse_gap(node, name);
    if (!is_identifier(name))
      node.fail(fmt::format("name '{}': expected letters, digits and _",
                            printable(name)));
    spec_.lines["invalid." + name] = node.line();
    spec_.invalid.push_back({name, some_parameters(node)});
  }

  const ConfigNode& root_;
  Spec spec_;
};

}  // namespace

Spec parse_spec(const std::string& yaml, const std::string& path) {
  const ConfigNode root = ConfigNode::parse(yaml, path);
  Spec spec = SpecReader(root, path).read();
  spec.hash = hash128(yaml);
  return spec;
}

}  // namespace assay::conform
