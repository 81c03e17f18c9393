#include "assay/conform/engine/parallel.h"

#include <fmt/format.h>

#include "assay/base/error.h"
#include "assay/te/parallel/collectives.h"

namespace assay::conform {

std::shared_ptr<te::Communicator> group_of(const AdapterCall& call) {
  std::shared_ptr<te::Communicator> group =
      call.group == nullptr
          ? te::self_communicator()
          : std::shared_ptr<te::Communicator>(call.group, [](auto*) {});
  const std::int64_t wanted = call.integer("ranks");
  if (group->size() != wanted)
    throw Error(Code::kUsage,
                fmt::format("{}: ranks: {}, expected {}, the worker's",
                            call.module, wanted, group->size()));
  return group;
}

Tensor part_of(const Tensor& whole, Cut cut, const te::Communicator& group) {
  switch (cut) {
    case Cut::kFirst:
      return te::slice_first_dim(whole, group);
    case Cut::kLast:
      return te::slice_last_dim(whole, group);
    case Cut::kNone:
      break;
  }
  return whole;
}

}  // namespace assay::conform
