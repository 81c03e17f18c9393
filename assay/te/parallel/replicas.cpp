#include "assay/te/parallel/replicas.h"

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "assay/base/hash.h"
#include "assay/te/check.h"
#include "assay/te/parallel/agreement.h"

namespace assay::te {
namespace {

constexpr std::size_t kNamed = 8;  // tensors that a message names

std::string description(std::span<const NamedTensor> tensors) {
  std::string text = std::to_string(tensors.size()) + " tensors:";
  for (const auto& [name, tensor] : tensors)
    text.append(" ")
        .append(name)
        .append(" ")
        .append(traits(tensor.dtype()).name)
        .append(to_string(tensor.shape()));
  return text;
}

// "ranks 0, 1, 3; rank 2": the ranks of each hash, the largest set first.
std::string who_agrees(std::span<const Hash128> of_ranks) {
  std::map<Hash128, std::vector<int>> sets;
  for (std::size_t r = 0; r < of_ranks.size(); ++r)
    sets[of_ranks[r]].push_back(static_cast<int>(r));
  std::vector<std::vector<int>> ordered;
  ordered.reserve(sets.size());
  for (const auto& [hash, ranks] : sets) ordered.push_back(ranks);
  std::sort(ordered.begin(), ordered.end(), [](const auto& a, const auto& b) {
    return a.size() != b.size() ? a.size() > b.size() : a < b;
  });
  std::string text;
  for (const auto& ranks : ordered) {
    text += text.empty() ? "" : "; ";
    text += ranks.size() > 1 ? "ranks " : "rank ";
    for (std::size_t i = 0; i < ranks.size(); ++i)
      text += (i == 0 ? "" : ", ") + std::to_string(ranks[i]);
  }
  return text;
}

}  // namespace

void broadcast_tensors(std::span<NamedTensor> tensors, int root,
                       Communicator& group) {
  constexpr std::string_view kOp = "broadcast_tensors";
  agree(kOp, group, [&] {
    require(root >= 0 && root < group.size(), kOp, "root", std::to_string(root),
            "0 to " + std::to_string(group.size() - 1));
    for (const auto& [name, tensor] : tensors) {
      require_writable(kOp, name, tensor);
      require_contiguous(kOp, name, tensor);
    }
    return "from rank " + std::to_string(root) + ", " + description(tensors);
  });
  for (NamedTensor& t : tensors)
    group.broadcast({t.tensor.mutable_data(), t.tensor.view.bytes().size()},
                    root);
}

void require_same_bytes_everywhere(std::span<const NamedTensor> tensors,
                                   Communicator& group) {
  constexpr std::string_view kOp = "require_same_bytes_everywhere";
  std::vector<Hash128> own;
  agree(kOp, group, [&] {
    for (const auto& [name, tensor] : tensors) {
      require_present(kOp, name, tensor);
      own.push_back(hash128(contiguous(tensor).view.bytes()));
    }
    return description(tensors);
  });
  const auto ranks = static_cast<std::size_t>(group.size());
  std::vector<Hash128> all(own.size() * ranks);
  group.all_gather(std::as_bytes(std::span(own)),
                   std::as_writable_bytes(std::span(all)));
  std::size_t differing = 0;
  std::string text;
  for (std::size_t i = 0; i < own.size(); ++i) {
    std::vector<Hash128> of_ranks;
    for (std::size_t r = 0; r < ranks; ++r)
      of_ranks.push_back(all[r * own.size() + i]);
    if (std::count(of_ranks.begin(), of_ranks.end(), of_ranks[0]) ==
        group.size())
      continue;
    if (differing++ < kNamed)
      text += (text.empty() ? "" : "; then ") + tensors[i].name + ": " +
              who_agrees(of_ranks);
  }
  if (differing > 0)
    throw Error(Code::kRefused,
                std::string(kOp) + ": " + std::to_string(differing) + " of " +
                    std::to_string(own.size()) +
                    " tensors hold other bytes on some ranks: " + text +
                    (differing > kNamed ? "; ..." : ""));
}

}  // namespace assay::te
