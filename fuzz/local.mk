# fuzz: one program per hostile input; without --enable-fuzz they replay their corpora in make check.
