// A group whose ranks are threads of this process: adapters of several ranks
// without a launcher.
#pragma once

#include <barrier>
#include <cstring>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "assay/base/error.h"
#include "assay/te/parallel/communicator.h"

namespace assay::conform {

class ThreadGroup {
 public:
  explicit ThreadGroup(int size)
      : sends_(static_cast<std::size_t>(size)), gate_(size) {}

  // body(rank's communicator) on every rank at the same time.
  static void run(int size,
                  const std::function<void(te::Communicator&)>& body) {
    ThreadGroup group(size);
    std::vector<std::thread> threads;
    for (int rank = 0; rank < size; ++rank)
      threads.emplace_back([&group, &body, rank] {
        Rank own(group, rank);
        body(own);
      });
    for (std::thread& thread : threads) thread.join();
  }

 private:
  struct Send {
    std::span<const std::byte> bytes;
    std::span<const std::int64_t> sizes;  // of an all-to-all
  };

  class Rank : public te::Communicator {
   public:
    Rank(ThreadGroup& group, int rank) : group_(group), rank_(rank) {}
    int rank() const override { return rank_; }
    int size() const override { return static_cast<int>(group_.sends_.size()); }
    std::string_view name() const override { return "threads"; }

    void all_gather(std::span<const std::byte> from,
                    std::span<std::byte> to) override {
      std::byte* next = to.data();
      meet({from, {}},
           [&](const Send& send) { next = copy(send.bytes, next); });
    }
    void all_to_all(std::span<const std::byte> from,
                    std::span<const std::int64_t> from_sizes,
                    std::span<std::byte> to,
                    std::span<const std::int64_t>) override {
      std::byte* next = to.data();
      meet({from, from_sizes}, [&](const Send& send) {
        std::size_t begin = 0;
        for (int r = 0; r < rank_; ++r)
          begin += static_cast<std::size_t>(send.sizes[r]);
        const auto count = static_cast<std::size_t>(send.sizes[rank_]);
        next = copy(send.bytes.subspan(begin, count), next);
      });
    }
    void broadcast(std::span<std::byte> bytes, int root) override {
      int from = 0;
      meet({bytes, {}}, [&](const Send& send) {
        if (from++ == root && root != rank_) copy(send.bytes, bytes.data());
      });
    }
    void barrier() override {
      meet({}, [](const Send&) {});
    }
    std::unique_ptr<te::PendingTransfer> exchange(std::span<const std::byte>,
                                                  int, std::span<std::byte>,
                                                  int) override {
      throw Error(Code::kUnsupported, "threads: exchange");
    }
    std::unique_ptr<Communicator> split(int, int) override {
      throw Error(Code::kUnsupported, "threads: split");
    }

   private:
    static std::byte* copy(std::span<const std::byte> from, std::byte* to) {
      if (!from.empty()) std::memcpy(to, from.data(), from.size());
      return to + from.size();
    }
    // What every rank sends is looked at while all of them stand still.
    template <typename F>
    void meet(const Send& own, F&& look) {
      group_.sends_[static_cast<std::size_t>(rank_)] = own;
      group_.gate_.arrive_and_wait();
      for (const Send& send : group_.sends_) look(send);
      group_.gate_.arrive_and_wait();
    }
    ThreadGroup& group_;
    int rank_;
  };

  std::vector<Send> sends_;
  std::barrier<> gate_;
};

}  // namespace assay::conform
