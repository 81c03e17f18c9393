// Reads what a dump tells of a torch.distributed call.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "assay/trace/trace.h"

namespace assay {

bool is_communication(const Op& op);
bool is_send(std::string_view api);
bool is_receive(std::string_view api);

// The rank a call names as its second argument or as `keyword` ("src", "dst").
std::optional<std::int64_t> rank_argument(const Trace& trace, const Op& op,
                                          std::string_view keyword);

// One entry of batch_isend_irecv.
struct PointToPoint {
  bool send = false;
  std::int64_t peer = 0;
};
std::optional<PointToPoint> point_to_point(const Record& record);

}  // namespace assay
