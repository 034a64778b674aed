// emend doctor: this machine as Emend sees it, and what each lack costs.
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iostream>
#include <sstream>
#include <thread>

#include "base/parallel.h"
#include "run/onednn.h"
#include "solve/highs.h"
#include "verb.h"

namespace emend {
namespace {

std::string first_value(const std::string& file, const std::string& key) {
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with(key)) {
      auto colon = line.find(':');
      return colon == std::string::npos ? ""
                                        : line.substr(line.find_first_not_of(" \t", colon + 1));
    }
  }
  return "";
}

bool has_word(const std::string& text, const std::string& word) {
  std::istringstream in(text);
  for (std::string w; in >> w;) {
    if (w == word) return true;
  }
  return false;
}

// Where a command is found, as a shell would; "" if nowhere.
std::string found(const std::string& command) {
  const char* path = std::getenv("PATH");
  for (const auto& folder : split(path ? path : "", ':')) {
    auto candidate = std::filesystem::path(folder) / command;
    if (!folder.empty() && access(candidate.c_str(), X_OK) == 0) return candidate.string();
  }
  return "";
}

struct Finding {
  std::string what, value, lack;  // lack: what its absence costs; empty if all is well
};

std::vector<Finding> examine() {
  std::vector<Finding> all;
  std::string flags = first_value("/proc/cpuinfo", "flags");
  all.push_back({"processor", first_value("/proc/cpuinfo", "model name"), ""});
  all.push_back({"threads", str(thread_count(), " of ", std::thread::hardware_concurrency()), ""});
  bool wide = has_word(flags, "avx512f"),
       medium = has_word(flags, "avx2") && has_word(flags, "fma");
  all.push_back({"vectors",
                 wide     ? "AVX-512"
                 : medium ? "AVX2 and FMA"
                          : "baseline",
                 wide     ? ""
                 : medium ? "without AVX-512 arithmetic runs at up to half the speed per core"
                          : "without AVX2 arithmetic runs several times slower"});
  for (const char* extension : {"avx512_bf16", "avx512_vnni", "amx_tile"}) {
    all.push_back({extension, has_word(flags, extension) ? "yes" : "no", ""});
  }
  std::istringstream memory(first_value("/proc/meminfo", "MemTotal"));
  double kib = 0;
  memory >> kib;
  all.push_back({"memory", bytes_text(kib * 1024), ""});
  std::string cc = found("cc");
  all.push_back(
      {"C compiler", cc.empty() ? "none" : cc,
       cc.empty() ? "without cc no kernels can be compiled; models run on the interpreter" : ""});
  const OnednnState& onednn = onednn_state();
  all.push_back({"oneDNN", onednn.text,
                 onednn.loaded ? ""
                               : "without it convolutions run on generated kernels only; the wheel "
                                 "onednn-cpu-gomp has it, EMEND_ONEDNN names libdnnl.so.3"});
  const bool highs = static_cast<bool>(highs_solver());
  all.push_back(
      {"HiGHS", highs ? "built in" : "none",
       highs ? "" : "without it fewer extractions are proven best; `make certify` brings it in"});
  bool gpu = std::filesystem::exists("/dev/nvidiactl");
  all.push_back({"GPU", gpu ? "NVIDIA" : "none", gpu ? "" : "models run on the CPU"});
  return all;
}

int doctor(const Globals& globals) {
  Json facts = Json::object();
  facts["schema"] = 1;
  facts["version"] = EMEND_VERSION;
  Json items = Json::array();
  auto findings = examine();
  for (const Finding& f : findings) {
    Json item = Json::object();
    item["what"] = f.what;
    item["value"] = f.value;
    item["lack"] = f.lack;
    items.push(item);
  }
  facts["findings"] = items;
  globals.report(facts);
  if (globals.json == "-") return kOk;
  std::cout << "emend " << EMEND_VERSION << "\n";
  for (const Finding& f : findings) {
    std::cout << f.what << std::string(f.what.size() < 14 ? 14 - f.what.size() : 1, ' ') << f.value
              << (f.lack.empty() ? "" : ": " + f.lack) << "\n";
  }
  return kOk;
}

}  // namespace

Verb doctor_verb(CLI::App& app, const Globals& globals) {
  CLI::App* c =
      app.add_subcommand("doctor", "this machine: features, compilers, and what each lack costs");
  return {c, [&globals] { return doctor(globals); }};
}

}  // namespace emend
