// The small pieces of a spec's YAML: names, values, parameters.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "assay/conform/spec.h"
#include "assay/metrics/config_node.h"

namespace assay::conform {

// All of these throw Error{kUsage} with the place of the node.

// Letters, digits and _, not a digit first.
bool is_identifier(const std::string& text);
// "self_attention.qkv.weight"; entries of lists have numbers: "0.weight". Names
// of tensors become parts of file names and of reports.
bool is_dotted_name(const std::string& text);

// '?' is what `assay conform new` leaves for people.
void refuse_gap(const ConfigNode& node, const std::string& text);

// What plain YAML means: true, false, an integer, a float, else text.
Value scalar_value(const ConfigNode& node);
Value value_of(const ConfigNode& node);  // a list of values too
std::int64_t integer_of(const ConfigNode& node, std::int64_t least);
std::vector<std::string> texts(const ConfigNode& node);  // none twice

// [...] for both tiers, or {small: [...], real: [...]}.
Parameter parameter(const std::string& name, const ConfigNode& node);

}  // namespace assay::conform
