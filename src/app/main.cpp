#include "cortiq/app/run.hpp"

int main(int argc, char** argv) { return cortiq::app::run(argc, argv); }
