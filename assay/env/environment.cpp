#include "assay/env/environment.h"

#include <algorithm>
#include <array>
#include <cctype>

#include "assay/base/text.h"

extern char** environ;

namespace assay::env {
namespace {

constexpr std::array<std::string_view, 52> kPrefixes = {
    "ACLNN_",       "ACL_",        "AMD_",     "ASAN_",        "ASCEND_",
    "ASSAY_",       "ATB_",        "BLAS_",    "CLOSE_MATMUL", "COMBINED_",
    "CPU_AFFINITY", "CUBLAS",      "CUDA_",    "CUDNN_",       "DNNL_",
    "FLAGS_",       "FLASH_",      "GLOO_",    "GOMP_",        "HCCL_",
    "HIP",          "HSA_",        "INF_NAN_", "KMP_",         "LCCL_",
    "LD_",          "MASTER_",     "MCCL_",    "MEGATRON_",    "MINDSPEED_",
    "MIOPEN_",      "MKL_",        "MUSA_",    "NCCL_",        "NPU_",
    "NUMEXPR_",     "NVIDIA_",     "NVTE_",    "OMP_",         "OPENBLAS_",
    "PYTHON",       "PYTORCH_",    "RCCL_",    "ROCBLAS_",     "ROCM_",
    "ROCR_",        "TASK_QUEUE_", "TORCH",    "TRITON_",      "UCX_",
    "VLLM_",        "XFORMERS_"};
constexpr std::array<std::string_view, 6> kNames = {
    "RANK",      "LOCAL_RANK",       "WORLD_SIZE",
    "NODE_RANK", "LOCAL_WORLD_SIZE", "TOKENIZERS_PARALLELISM"};
constexpr std::array<std::string_view, 6> kParts = {
    "TF32", "HF32", "SEED", "DETERMINISTIC", "BF16", "FP8"};

}  // namespace

bool is_listed(std::string_view name) {
  const auto begins = [&](std::string_view prefix) {
    return name.starts_with(prefix);
  };
  const auto has = [&](std::string_view part) {
    return name.find(part) != name.npos;
  };
  return std::any_of(kPrefixes.begin(), kPrefixes.end(), begins) ||
         std::find(kNames.begin(), kNames.end(), name) != kNames.end() ||
         std::any_of(kParts.begin(), kParts.end(), has);
}

void collect_environment(bool all, SectionFacts& facts) {
  facts.collected = true;
  facts.scope = all ? Scope::kAll : Scope::kListed;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const std::size_t sign = text.find('=');
    if (sign == text.npos || sign == 0) continue;
    const std::string_view name = text.substr(0, sign);
    if (!all && !is_listed(name)) continue;
    facts.values.insert_or_assign(
        std::string(name),
        Value{Kind::kText, std::string(text.substr(sign + 1)), ""});
  }
}

}  // namespace assay::env
