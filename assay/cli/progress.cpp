#include "assay/cli/progress.h"

#include <unistd.h>

#include <cstdio>
#include <string>

#include "assay/base/text.h"

namespace assay {
namespace {

constexpr int kBarWidth = 24;

std::string bar(double share) {
  const int full = static_cast<int>(share * kBarWidth);
  return "[" + std::string(full, '#') + std::string(kBarWidth - full, '.') +
         "]";
}

}  // namespace

Progress::Progress(bool quiet, std::string_view unit)
    : shown_(!quiet && ::isatty(2) != 0), unit_(unit) {}

Progress::~Progress() {
  if (drawn_) std::fputs("\r\x1b[K", stderr);
}

void Progress::update(std::int64_t done, std::int64_t total,
                      std::int64_t bytes_done) {
  if (!shown_ || total <= 0) return;
  const std::lock_guard lock(mutex_);
  const auto now = Clock::now();
  if (now - last_ < std::chrono::milliseconds(100)) return;
  last_ = now;
  const double elapsed = std::chrono::duration<double>(now - start_).count();
  const double share = static_cast<double>(done) / static_cast<double>(total);
  std::string line = "\r\x1b[K" + bar(share) + " " + human_count(done) + " / " +
                     human_count(total) + " " + std::string(unit_);
  if (bytes_done > 0 && elapsed > 0) {
    const auto rate =
        static_cast<std::int64_t>(static_cast<double>(bytes_done) / elapsed);
    line += "  " + human_bytes(rate) + "/s";
  }
  if (share > 0.01) {
    line += "  " + human_seconds(elapsed * (1 - share) / share) + " left";
  }
  std::fputs(line.c_str(), stderr);
  drawn_ = true;
}

}  // namespace assay
