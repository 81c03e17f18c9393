#include "assay/compare/distributed.h"

#include <charconv>
#include <string>

namespace assay {
namespace {

std::optional<std::int64_t> parse_number(std::string_view text, bool whole) {
  std::int64_t number = 0;
  const char* end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data(), end, number);
  if (parsed.ec != std::errc() || (whole && parsed.ptr != end)) {
    return std::nullopt;
  }
  return number;
}

}  // namespace

bool is_communication(const Op& op) {
  return op.direction == Direction::kForward &&
         (op.collective || op.prefix == "Distributed");
}

bool is_send(std::string_view api) { return api == "send" || api == "isend"; }

bool is_receive(std::string_view api) {
  return api == "recv" || api == "irecv";
}

std::optional<std::int64_t> rank_argument(const Trace& trace, const Op& op,
                                          std::string_view keyword) {
  const std::string named = "input." + std::string(keyword);
  for (std::uint32_t i = 0; i < op.record_count; ++i) {
    const Record& record = trace.records[op.first_record + i];
    if (!record.is_tensor &&
        (record.leaf == "input.1" || record.leaf == named)) {
      if (const auto rank = parse_number(record.value, true)) return rank;
    }
  }
  return std::nullopt;
}

// The reader keeps the members it has no field for as JSON text in `value`.
std::optional<PointToPoint> point_to_point(const Record& record) {
  constexpr std::string_view kPeer = "\"peer\":";
  const std::string_view text = record.value;
  const bool send = text.find("\"isend\"") != std::string_view::npos;
  const bool receive = text.find("\"irecv\"") != std::string_view::npos;
  const std::size_t at = text.find(kPeer);
  if (send == receive || at == std::string_view::npos) return std::nullopt;
  std::string_view digits = text.substr(at + kPeer.size());
  while (!digits.empty() && digits.front() == ' ') digits.remove_prefix(1);
  const auto peer = parse_number(digits, false);
  if (!peer) return std::nullopt;
  return PointToPoint{send, *peer};
}

}  // namespace assay
