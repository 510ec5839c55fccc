A=(1 "2 3")
if [ -n "$X" ]; then B=1; fi
C=$((A*2))
run ${A[@]} ${B:-2} $(date) `x` "${C}" \
 --num-layers 2
