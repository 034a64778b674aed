// Uses the installed library as an outsider would: loads the model it is given and says so.
#include <emend/emend.h>

#include <cstdio>

int main(int, char** argv) {
  const auto model = emend::load(argv[1]);
  std::puts("loaded");
}
