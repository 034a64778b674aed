// The command line: global options, the list of verbs, and what an error becomes.
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>

#include "base/atomic_file.h"
#include "base/parallel.h"
#include "bundle.h"
#include "verb.h"

namespace emend {

namespace {

// Characters that change how others are shown, or end a line, without being control characters: the
// directions of writing and the separators of Unicode. 0: none begins here.
unsigned hidden_at(std::string_view text, size_t i) {
  auto byte = [&](size_t k) {
    return i + k < text.size() ? static_cast<unsigned char>(text[i + k]) : 0u;
  };
  if (byte(0) == 0xd8 && byte(1) == 0x9c) return 0x61c;
  if (byte(0) != 0xe2 || (byte(2) & 0xc0) != 0x80) return 0;
  const unsigned code = 0x2000 + ((byte(1) & 0x3f) << 6) + (byte(2) & 0x3f);
  const bool hidden = code == 0x200e || code == 0x200f || (code >= 0x2028 && code <= 0x202e) ||
                      (code >= 0x2066 && code <= 0x2069);
  return hidden ? code : 0;
}

}  // namespace

std::string printable(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    auto c = static_cast<unsigned char>(text[i]);
    // In UTF-8 the second half of them are two bytes.
    bool second_half = c == 0xc2 && i + 1 < text.size() &&
                       static_cast<unsigned char>(text[i + 1]) >= 0x80 &&
                       static_cast<unsigned char>(text[i + 1]) < 0xa0;
    if (unsigned code = hidden_at(text, i)) {
      std::array<char, 8> buffer;
      std::snprintf(buffer.data(), buffer.size(), "\\u%04x", code);
      out += buffer.data();
      i += code < 0x800 ? 1 : 2;
    } else if (c == '\n' || c == '\t') {
      out += c == '\n' ? "\\n" : "\\t";
    } else if (c < 0x20 || c == 0x7f || second_half) {
      if (second_half) c = static_cast<unsigned char>(text[++i]);
      std::array<char, 8> buffer;
      std::snprintf(buffer.data(), buffer.size(), "\\x%02x", c);
      out += buffer.data();
    } else {
      out += static_cast<char>(c);
    }
  }
  return out;
}

void Globals::report(const Json& facts) const {
  if (json.empty()) return;
  if (json == "-") {
    std::cout << facts.text();
    return;
  }
  AtomicFile file(json);
  file.write(facts.text());
  file.commit();
}

void Globals::say(const std::string& line) const {
  if (quiet) return;
  view->clear();
  std::cerr << printable(line) << '\n';
}

void require_apart(const std::vector<Written>& written, const std::string& read) {
  namespace fs = std::filesystem;
  auto given = [](const std::string& path) { return !path.empty() && path != "-"; };
  auto same = [](const std::string& a, const std::string& b) {
    std::error_code none;
    if (!fs::is_regular_file(a, none) && fs::exists(a, none) && !fs::is_directory(a, none))
      return false;  // a device takes whatever comes
    return fs::equivalent(a, b, none) || fs::weakly_canonical(fs::absolute(a), none) ==
                                             fs::weakly_canonical(fs::absolute(b), none);
  };
  for (size_t i = 0; i < written.size(); ++i) {
    if (!given(written[i].path)) continue;
    if (written[i].option != "OUT" && same(written[i].path, read))
      throw UsageError{str(written[i].option, " ", written[i].path, " is the file that is read")};
    for (size_t k = 0; k < i; ++k) {
      if (given(written[k].path) && same(written[i].path, written[k].path))
        throw UsageError{str(written[k].option, " and ", written[i].option, " are one file, ",
                             written[i].path, ": give them different names")};
    }
  }
}

CLI::Validator a_file_name() {
  return {[](const std::string& text) {
            return text.empty() ? std::string("an empty name is no file") : std::string();
          },
          "", "a file name"};
}

void add_shape_option(CLI::App& command, std::vector<std::string>& shapes) {
  command.add_option("--shape", shapes, "shape of an input (x:1x3x224x224) or of a symbol (N=8)")
      ->type_name("SHAPE")
      ->allow_extra_args(false);
}

void apply_shapes(const std::vector<std::string>& shapes, ImportOptions& options) {
  const auto size = [](const std::string& whole, const std::string& text) {
    char* end = nullptr;
    long long v = std::strtoll(text.c_str(), &end, 10);
    if (text.empty() || *end || v < 0) {
      throw UsageError{str("--shape ", whole, ": ", emend::quoted(text), " is not a size")};
    }
    return static_cast<int64_t>(v);
  };
  for (const auto& s : shapes) {
    // Names may hold colons, sizes may not.
    if (auto colon = s.rfind(':'); colon != std::string::npos) {
      std::string list = s.substr(colon + 1);
      for (char& c : list) c = c == ',' ? 'x' : c;
      Dims dims;
      if (!list.empty()) {
        for (const auto& part : split(list, 'x')) dims.push_back(size(s, part));
      }
      options.shapes[s.substr(0, colon)] = dims;
    } else if (auto equals = s.rfind('='); equals != std::string::npos) {
      options.symbols[s.substr(0, equals)] = size(s, s.substr(equals + 1));
    } else {
      throw UsageError{str("--shape ", s, ": expected NAME:1x3x224x224 or SYMBOL=8")};
    }
  }
}

namespace {

using MakeVerb = Verb (*)(CLI::App&, const Globals&);
constexpr MakeVerb kVerbs[] = {optimize_verb, run_verb,     bench_verb, conformance_verb,
                               inspect_verb,  verify_verb,  cache_verb, doctor_verb,
                               explain_verb,  extract_verb, rules_verb, zoo_verb};

void add_globals(CLI::App& app, Globals& g) {
  app.add_option("--json", g.json, "write the same facts as JSON to this file ('-': stdout)")
      ->type_name("FILE");
  app.add_flag("-q,--quiet", g.quiet, "nothing on stderr but errors");
  app.add_option("--progress", g.progress,
                 "how long work is shown: auto (a bar on a terminal, else lines), bar, lines, json "
                 "or none")
      ->check(CLI::IsMember({"auto", "bar", "lines", "json", "none"}))
      ->type_name("HOW");
  app.add_option("--threads", g.threads, "how many threads to use (0: as many as there are)")
      ->envname("EMEND_THREADS");
  app.add_option("--seed", g.seed, "seed of everything random");
  // For tests of what happens then; not listed.
  app.add_option("--debug-fail", g.debug_fail, "fail as a bug would, in this phase")->group("");
}

ProgressView::Mode progress_mode(const Globals& g) {
  using enum ProgressView::Mode;
  if (g.quiet || g.progress == "none") return none;
  if (g.progress == "json") return json;
  if (g.progress == "bar") return bar;
  if (g.progress == "lines") return lines;
  return isatty(STDERR_FILENO) ? bar : lines;
}

// `emend in.onnx out.onnx` means `emend optimize in.onnx out.onnx`, whatever options stand around.
std::vector<std::string> with_default_verb(int argc, char** argv, const CLI::App& app) {
  std::vector<std::string> args(argv + 1, argv + argc);
  bool names_a_model = false;
  for (const auto& a : args) {
    auto verbs = app.get_subcommands([&](const CLI::App* c) { return c->get_name() == a; });
    if (!verbs.empty()) return args;
    names_a_model |= a.ends_with(".onnx");
  }
  if (names_a_model) args.insert(args.begin(), "optimize");
  return args;
}

int run(int argc, char** argv) {
  Globals globals;
  CLI::App app{"Emend hands back a tensor program that computes the same and costs less."};
  app.name("emend");
  app.set_version_flag("--version", std::string("emend ") + EMEND_VERSION);
  app.require_subcommand(1);
  add_globals(app, globals);
  app.fallthrough();
  std::vector<Verb> verbs;
  for (MakeVerb make : kVerbs) verbs.push_back(make(app, globals));
  try {
    auto args = with_default_verb(argc, argv, app);
    std::reverse(args.begin(), args.end());  // as CLI11 takes them
    app.parse(std::move(args));
  } catch (const CLI::ParseError& e) {
    return app.exit(e) == 0 ? kOk : kUsage;
  }
  set_thread_count(globals.threads);
  ProgressView view(progress_mode(globals), !std::getenv("NO_COLOR"));
  globals.view = &view;
  globals.monitor = Monitor([&view, &globals](const Progress& p) {
    EMEND_ASSERT(p.phase != globals.debug_fail, "asked for by --debug-fail");
    view.show(p);
  });
  for (const Verb& v : verbs) {
    if (v.command->parsed()) return v.run();
  }
  return kUsage;
}

int internal_error(const std::vector<std::string>& arguments, const std::string& message) {
  std::cerr << "emend: internal error: " << message << '\n';
  try {
    std::string folder = write_bundle(arguments, message).string();
    std::cerr << "emend: this is a bug of ours; " << folder
              << " holds what is needed to see it again\n"
              << "emend: replay it with: sh " << folder << "/replay.sh\n";
  } catch (const std::exception& e) {
    std::cerr << "emend: this is a bug of ours; it could not be kept for a replay: " << e.what()
              << '\n';
  }
  return kInternalError;
}

}  // namespace
}  // namespace emend

int main(int argc, char** argv) {
  using namespace emend;
  // A limit on the size of files is then like a full disk: writing fails, and says so.
  std::signal(SIGXFSZ, SIG_IGN);
  try {
    return run(argc, argv);
  } catch (const UsageError& e) {
    std::cerr << "emend: " << printable(e.message) << '\n';
    return kUsage;
  } catch (const Error& e) {
    std::cerr << "emend: " << printable(e.what()) << '\n';
    return kBadModel;
  } catch (const std::bad_alloc&) {
    std::cerr << "emend: out of memory\n";
    return kBadModel;
  } catch (const std::filesystem::filesystem_error& e) {
    std::cerr << "emend: " << e.path1().string() << ": " << e.code().message() << '\n';
    return kBadModel;
  } catch (const std::exception& e) {
    return internal_error(std::vector<std::string>(argv + 1, argv + argc), e.what());
  }
}
