// What the names of dumped operators say: prefix, API, call index, direction.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "assay/trace/trace.h"

namespace assay {

struct EntryName {
  std::string_view prefix;  // "Functional", "Module", ...
  std::string_view api;     // "linear", "layers.0.mlp.Linear"
  std::int64_t call_index = 0;
  bool indexed = false;  // the name holds an index
  Direction direction = Direction::kNone;
};

// "Functional.linear.0.forward", "Module.a.b.Linear.forward.0",
// "Module.a.Linear.parameters_grad[.0]", "var_grad.0.debug". Read from the
// right, because module paths hold dots and digits of their own. A name of no
// known form comes back with direction kNone and itself as `api`. Views point
// into `name`.
EntryName parse_entry_name(std::string_view name);

// The same entry under another call index.
std::string with_call_index(const EntryName& entry, std::int64_t index);

std::string_view direction_name(Direction direction);  // "forward", ...

// A row name of the old ptdbg tool, in today's dotted spelling, split into
// entry and leaf: "Functional_layer_norm_0_forward_input.0" gives
// "Functional.layer_norm.0.forward" and "input.0"; a "stack_info" row has that
// as its leaf. Nullopt when the name has neither form; the leaf is then
// unknown.
struct PtdbgName {
  std::string entry;
  std::string leaf;
};
std::optional<PtdbgName> parse_ptdbg_name(std::string_view name);

// A file name that stays in its directory: not empty, no separator, no NUL,
// not "." or "..".
bool is_plain_file_name(std::string_view name);

}  // namespace assay
