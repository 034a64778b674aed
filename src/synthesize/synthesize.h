// Equations from the operators alone: terms over the menus are enumerated and evaluated, those that
// agree are tried widely until the condition under which they are equal is known, and what follows
// from what was accepted before is dropped. No table of rules is looked at. In the manner of TASO
// and Ruler; see docs/decisions/0026.
//
//   SynthesizeReport r = synthesize({.menus = default_menus()});
#pragma once

#include <string>
#include <vector>

#include "synthesize/bank.h"
#include "synthesize/derive.h"
#include "synthesize/verify.h"

namespace emend {

struct SynthesizeOptions {
  std::vector<Menu> menus = default_menus();
  // Equations that are known beforehand: only what does not follow from them is found.
  std::vector<Directed> known = {};
  BankOptions bank = {};
  VerifyOptions verify = {};
  DeriveOptions derive = {};
  uint64_t seed = 1;
  Monitor monitor = {};
};

struct Found {
  std::string name, menu;
  Equation equation;
  int passed = 0, failed = 0;  // trials, before the condition was known
};

struct MenuReport {
  std::string name;
  int64_t terms = 0, kept = 0;  // tried; of values of their own
  int64_t candidates = 0, derivable = 0, refuted = 0, accepted = 0;
  bool complete = true;  // no limit cut it short
};

struct SynthesizeReport {
  std::vector<Found> found;
  std::vector<MenuReport> menus;
  std::vector<std::string> refuted;  // equations that agreed in their menu and are false, and where
  int64_t evaluations = 0;
  bool interrupted = false;
};

SynthesizeReport synthesize(const SynthesizeOptions& options);

// Both directions of every equation, where there are two.
std::vector<Directed> rules_of(const std::vector<Found>& found);

}  // namespace emend
