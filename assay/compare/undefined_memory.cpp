#include "assay/compare/undefined_memory.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "assay/compare/distributed.h"

namespace assay {
namespace {

template <std::size_t N>
bool contains(const std::array<std::string_view, N>& names,
              std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

constexpr std::array<std::string_view, 6> kAllocators = {
    "empty",         "empty_like",        "new_empty",
    "empty_strided", "new_empty_strided", "empty_with_format"};

// Calls of torch.distributed whose first argument is where the result goes.
constexpr std::array<std::string_view, 13> kResultFirst = {
    "recv",
    "irecv",
    "all_gather",
    "all_gather_into_tensor",
    "_all_gather_base",
    "all_gather_coalesced",
    "reduce_scatter",
    "reduce_scatter_tensor",
    "_reduce_scatter_base",
    "all_to_all",
    "all_to_all_single",
    "scatter",
    "scatter_object_list"};

// What they are called on is written wholly, whatever it was.
constexpr std::array<std::string_view, 12> kOverwriting = {
    "fill_",   "zero_",      "copy_",        "normal_",
    "set_",    "uniform_",   "random_",      "bernoulli_",
    "cauchy_", "geometric_", "exponential_", "log_normal_"};

// Also functions of torch.nn.init, which are named by their module.
bool is_overwritten(const Op& op, const Record& record) {
  if (op.api.starts_with("nn.init.") && op.api.ends_with('_'))
    return record.leaf == "input.0" || record.leaf == "input.tensor";
  return record.leaf == "input.0" && contains(kOverwriting, op.api);
}

// "input.0" or a leaf below it, "kwargs"-style names included.
bool is_first_argument(std::string_view leaf) {
  return leaf == "input.0" || leaf.starts_with("input.0.") ||
         leaf == "input.output" || leaf == "input.output_tensor" ||
         leaf.starts_with("input.tensor_list") ||
         leaf.starts_with("input.output_tensor_list");
}

}  // namespace

bool is_undefined_memory(const Trace& trace, const Op& op,
                         const Record& record) {
  if (!record.is_tensor || op.direction != Direction::kForward) return false;
  if (record.role == Role::kOutput) return contains(kAllocators, op.api);
  if (record.role != Role::kInput) return false;
  if (record.leaf == "input.out" || record.leaf.starts_with("input.out."))
    return true;
  if (is_overwritten(op, record)) return true;
  if (op.prefix != "Distributed") return false;
  if (const auto transfer = point_to_point(record)) return !transfer->send;
  if (!is_first_argument(record.leaf)) return false;
  if (contains(kResultFirst, op.api)) return true;
  if (op.api != "broadcast") return false;
  const auto source = rank_argument(trace, op, "src");
  return source && *source != trace.rank;
}

}  // namespace assay
