// The rules of a --map file: how names of the golden translate to names of
// the target where a port renamed things.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace assay {

enum class MapKind : std::uint8_t {
  kLeaf,   // one record: "Torch.add.0.forward.input.0: Mint.add.0..."
  kOp,     // one call: "Torch.add.0.forward: Mint.add.0.forward"
  kText,   // a module or API ("fc2.Dense: fc2.Linear"), or any part of a name
  kLayer,  // inside class `layer`, attribute `golden` is called `target`
};

struct MapRule {
  MapKind kind = MapKind::kText;
  std::string golden, target;
  std::string layer;  // kLayer only
  int line = 0;       // in the file, from 1
};

// How a name is spelled: a record, a call, or neither.
MapKind classify_name(std::string_view name);

struct MapRules {
  std::string path;
  std::vector<MapRule> rules;  // in the order of the file

  bool has(MapKind kind) const;
};

// Parses a YAML mapping of `golden: target` and `LayerClass: {golden_attr:
// target_attr}`. Throws Error{kUsage}, or {kUnreadable} when the file cannot
// be read, naming file and line.
MapRules load_map_rules(const std::string& path);
MapRules parse_map_rules(const std::string& text, const std::string& path);

}  // namespace assay
