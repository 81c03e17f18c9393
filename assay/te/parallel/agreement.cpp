#include "assay/te/parallel/agreement.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <exception>
#include <map>
#include <vector>

#include "assay/base/error.h"
#include "assay/base/hash.h"

namespace assay::te {
namespace {

// What travels: a text that is cut where it is long, and the hash of it all.
struct Statement {
  Hash128 hash;
  std::int32_t refused = 0;
  std::int32_t length = 0;
  std::array<char, 232> text{};

  Statement() = default;
  Statement(const std::string& whole, bool is_error)
      : hash(hash128(whole)),
        refused(is_error),
        length(static_cast<std::int32_t>(std::min(whole.size(), text.size()))) {
    std::memcpy(text.data(), whole.data(), static_cast<std::size_t>(length));
  }
  std::string to_text() const {
    return {text.data(), static_cast<std::size_t>(length)};
  }
};

std::vector<Statement> exchange(const Statement& own, Communicator& group) {
  std::vector<Statement> all(static_cast<std::size_t>(group.size()));
  group.all_gather(std::as_bytes(std::span(&own, 1)),
                   std::as_writable_bytes(std::span(all)));
  return all;
}

// "rank 0: a; ranks 1, 2: b"
std::string who_says_what(const std::vector<Statement>& all) {
  std::vector<std::string> texts;
  std::map<std::string, std::string> ranks;
  for (std::size_t r = 0; r < all.size(); ++r) {
    const std::string text = all[r].to_text();
    std::string& of_text = ranks[text];
    if (of_text.empty()) texts.push_back(text);
    of_text += (of_text.empty() ? "" : ", ") + std::to_string(r);
  }
  std::string out;
  for (const std::string& text : texts) {
    const std::string& of_text = ranks[text];
    const bool several = of_text.find(',') != std::string::npos;
    out.append(out.empty() ? "" : "; ").append(several ? "ranks " : "rank ");
    out.append(of_text).append(": ").append(text);
  }
  return out;
}

}  // namespace

void agree(std::string_view op, Communicator& group,
           const std::function<std::string()>& check) {
  std::exception_ptr refusal;
  Statement own;
  try {
    own = Statement(check(), false);
  } catch (const Error& error) {
    refusal = std::current_exception();
    own = Statement(error.what(), true);
  }
  if (group.size() > 1) {
    const auto all = exchange(own, group);
    if (refusal) std::rethrow_exception(refusal);
    for (std::size_t r = 0; r < all.size(); ++r) {
      if (all[r].refused)
        throw Error(Code::kUsage,
                    "rank " + std::to_string(r) + ": " + all[r].to_text());
    }
    for (const Statement& other : all) {
      if (other.hash != all.front().hash)
        throw Error(Code::kUsage, std::string(op) + ": the ranks differ: " +
                                      who_says_what(all));
    }
  }
  if (refusal) std::rethrow_exception(refusal);
}

}  // namespace assay::te
