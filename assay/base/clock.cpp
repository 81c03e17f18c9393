#include "assay/base/clock.h"

#include <chrono>
#include <ctime>

namespace assay {

std::string utc_time(double seconds_ago) {
  using std::chrono::system_clock;
  const std::chrono::duration<double> ago(seconds_ago);
  const std::time_t when = system_clock::to_time_t(
      system_clock::now() -
      std::chrono::duration_cast<system_clock::duration>(ago));
  std::tm fields = {};
  gmtime_r(&when, &fields);
  char text[32];
  const std::size_t length =
      std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &fields);
  return {text, length};
}

}  // namespace assay
