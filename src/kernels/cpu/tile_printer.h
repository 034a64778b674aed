// The innermost pieces of generated contractions, as C functions.
//
// A tile: sums of products of `rows` rows with `vectors` registers, over k, all sums in registers.
//
//   sums[i][j] (+)= sum over k of s[i * row_step + k * k_step] * v[k * panel + j]
//
// or, where a tile is part of several sums, added to two of them, to one with a sign.
// Of narrow factors a k stands for the two or four that lie in a word of 32 bits: the tile is the
// same, but for the instruction that multiplies and adds (or what stands in for it).
//
// A turn: a square block of memory transposed in registers, as wide as one of them.
#pragma once

#include <cstdint>
#include <string>

#include "kernels/cpu/contraction.h"

namespace emend {

constexpr int64_t kLineFloats = 16;  // of a cache line
// What is multiplied, and how.
struct Arithmetic32 {
  Product product = Product::f32;
  int64_t width = 16;                                // words of a register
  bool dots = false;                                 // an instruction does it
  bool signed_rows = false, signed_vectors = false;  // bytes
  bool plain() const { return product == Product::f32; }
  // C types: of a word of memory, and of a sum.
  const char* word() const { return plain() ? "float" : "em_w"; }
  const char* sum() const { return product == Product::bytes ? "int32_t" : "float"; }
};

struct RegisterTile {
  std::string name;
  int64_t rows = 1, vectors = 1;
  Arithmetic32 arithmetic = {};
  int64_t panel = 16;                // words from one k of the vectors to the next
  bool pointers = false;             // rows begin where rows[i] says: row_step counts nothing
  int64_t row_step = 1, k_step = 1;  // floats; of words, bytes
  int64_t sums_step = 16;            // words from one row of sums to the next
  int64_t vector_step = 0;  // words from one register of a row of sums to the next; 0: its width
  bool continues = false;   // an argument tells if sums begin at zero
  bool adds = false;        // to sums, and to others if there are any
  // After every `every` k's, so many lines are fetched of what is needed next; 0: none.
  struct Fetch {
    int64_t every = 0, lines = 1, step = 64;  // bytes from one time to the next
    bool to_write = false;
    bool near = false;  // into the first-level cache
  } fetch;
};

// void NAME(int64_t depth, const float* s (const float* const* rows), const float* v, float* sums,
//           int fresh, float* others, float sign, const char* next), the last four only if used.
// Of words, s points to char, v to words, sums to what sums are.
std::string print_tile(const RegisterTile& t);

// void ENTRY_turn(const float* from, int64_t from_step, float* to, int64_t to_step), or of words.
std::string print_turn(const Arithmetic32& a);

// em_v: a register that may lie anywhere in memory.
std::string declare_vector(int64_t width);
// The same of sums; of words also em_w, em_p (a register of them), and
// em_v ENTRY_dot(em_v sums, em_p v, uint32_t s): the products of one k added.
std::string declare_arithmetic(const Arithmetic32& a);

}  // namespace emend
